"""The pages of the documentation that scripts write: they are what the scripts would write, and their examples are true."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import ROOT

from benchmarks.peers import report
from triton_ensemble.compile.rules import RefusedAnswers
from triton_ensemble.facts import catalog

CHECK_PAGE = runpy.run_path(str(ROOT / "scripts/check_page.py"))
FIELDS_PAGE = runpy.run_path(str(ROOT / "scripts/fields_page.py"))
LISTS = runpy.run_path(str(ROOT / "scripts/lists.py"))
REFERENCE = runpy.run_path(str(ROOT / "scripts/reference.py"))
list_examples = FIELDS_PAGE["list_examples"]
SECTIONS: dict[str, dict[str, Any]] = FIELDS_PAGE["GIVEN"]["sections"]
FIELDS = {name: of for name, of in catalog.fields().items() if name != "prompt"}
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
    """`make pages` writes them.

    Since Python 3.13, argparse indents a list of commands differently. Only the words are compared there.
    """
    pages: dict[Path, str] = {
        ROOT / "docs/check.md": CHECK_PAGE["text"](),
        ROOT / "docs/fields.md": FIELDS_PAGE["text"](),
        **LISTS["pages"](),
        **REFERENCE["pages"](),
        **report.pages(json.loads(report.RESULTS.read_text())),
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
    examples = [text for section in SECTIONS.values() for text in list_examples(section)]
    used = {key for text in examples for key in keys(yaml.safe_load(text))}
    wanted = {field for table, of in FIELDS.items() if table != "answer" for field in of}
    assert wanted - used == set()


@pytest.mark.parametrize(("table", "written"), DEFAULTS)
def test_a_default_that_is_written_changes_no_config(table: str, written: str) -> None:
    example = PLACES[table].replace("{}", written, 1)
    with_it = FIELDS_PAGE["configs"](FIELDS_PAGE["answers_with"](example))
    assert with_it == FIELDS_PAGE["configs"](FIELDS_PAGE["GIVEN"]["pipeline"])


# Fields that say something of the project around the configs.
NO_CONFIG = {
    "adopted", "calls", "classify", "cpu", "dimensions", "embeddings", "flags", "fuse", "label",
    "memory", "private", "replicas", "requirements", "rerank", "shapes", "tokens",
}  # fmt: skip


def drop(value: Any, field: str) -> Any:
    """Return a part of an example without a field."""
    if isinstance(value, list):
        return [drop(item, field) for item in value]
    if isinstance(value, dict):
        return {key: drop(item, field) for key, item in value.items() if key != field}
    return value


def changes_a_config(field: str, example: str) -> bool:
    """Return whether an example has other configs without a field, or none because it needs the field."""
    without = yaml.safe_dump(drop(yaml.safe_load(example), field))
    configs, answers_with = FIELDS_PAGE["configs"], FIELDS_PAGE["answers_with"]
    try:
        return bool(configs(answers_with(without)) != configs(answers_with(example)))
    except (RefusedAnswers, KeyError):
        return True


def test_each_field_changes_a_config_or_is_listed() -> None:
    examples = [text for section in SECTIONS.values() for text in list_examples(section)]
    used = {text: set(keys(yaml.safe_load(text))) for text in examples}
    fields = {field for table, of in FIELDS.items() if table != "answer" for field in of}
    silent = {
        field
        for field in fields
        if not any(field in used[text] and changes_a_config(field, text) for text in examples)
    }
    assert silent == NO_CONFIG, "write how catalog/fields.yml renders it, or list it here"
