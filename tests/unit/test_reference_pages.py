"""The pages of the documentation that scripts write: they are what the scripts would write, and their examples are true."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import ROOT

from triton_ensemble import catalog

FIELDS_PAGE = runpy.run_path(str(ROOT / "scripts/fields_page.py"))
LISTS = runpy.run_path(str(ROOT / "scripts/lists.py"))
REFERENCE = runpy.run_path(str(ROOT / "scripts/reference.py"))
SECTIONS: dict[str, dict[str, Any]] = FIELDS_PAGE["GIVEN"]["sections"]
FIELDS = {name: of for name, of in catalog.table("fields").items() if name != "prompt"}
# Where a field of a table is written, with its value in place of `{}`.
PLACES = {
    "answer": "{}",
    "step": "steps: [{name: classify, {}}]",
    "batching": "steps: [{name: classify, batching: {{}}}]",
    "ensemble": "ensemble: {{}}",
}
DEFAULTS = [
    (table, f"{field}: {str(default).lower()}")
    for table in PLACES
    for field, (default, _) in SECTIONS[table]["fields"].items()
    if default is not None and not isinstance(default, str)
]


def test_pages_are_what_the_scripts_write() -> None:
    """`PYTHONPATH=src .venv/bin/python scripts/fields_page.py`, `scripts/lists.py` and `scripts/reference.py` write them.

    Since Python 3.13, argparse indents a list of commands differently. Only the words are compared there.
    """
    pages: dict[Path, str] = {
        ROOT / "docs/fields.md": FIELDS_PAGE["text"](),
        **LISTS["pages"](),
        **REFERENCE["pages"](),
    }
    for path, expected in pages.items():
        written = path.read_text()
        if sys.version_info >= (3, 13):
            written, expected = " ".join(written.split()), " ".join(expected.split())
        assert written == expected, path


def test_each_field_of_the_grammar_has_its_words() -> None:
    of_page = {table: list(section["fields"]) for table, section in SECTIONS.items()}
    assert of_page == {table: of_page[table] for table in FIELDS}
    assert {table: set(fields) for table, fields in of_page.items()} == {
        table: set(fields) for table, fields in FIELDS.items()
    }, "give each field its words in scripts/fields_page.yml"


def keys(value: Any) -> Iterator[str]:
    """Iterate over all keys in an example."""
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            yield from keys(item)
    if isinstance(value, dict):
        yield from map(str, value)


def test_each_field_below_the_answers_is_in_an_example() -> None:
    examples = [text for section in SECTIONS.values() for text in section.get("examples", [])]
    used = {key for text in examples for key in keys(yaml.safe_load(text))}
    wanted = {field for table, of in FIELDS.items() if table != "answer" for field in of}
    assert wanted - used == set()


@pytest.mark.parametrize(("table", "written"), DEFAULTS)
def test_a_default_that_is_written_changes_no_config(table: str, written: str) -> None:
    example = PLACES[table].replace("{}", written, 1)
    with_it = FIELDS_PAGE["configs"](FIELDS_PAGE["answers_with"](example))
    assert with_it == FIELDS_PAGE["configs"](FIELDS_PAGE["GIVEN"]["pipeline"])
