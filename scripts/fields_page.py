"""Write docs/fields.md: each field of pipeline.yml, from the catalogue, and what the template makes of examples.

    PYTHONPATH=src python scripts/fields_page.py

Words and examples are in scripts/fields_page.yml.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from difflib import ndiff
from pathlib import Path
from textwrap import fill
from typing import Any

import yaml

from triton_ensemble.compile.render import render_configs
from triton_ensemble.compile.rules import rules
from triton_ensemble.facts import catalog

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "fields.md"
GIVEN = yaml.safe_load(Path(__file__).with_suffix(".yml").read_text(encoding="utf-8"))
FIELDS, KINDS = catalog.fields(), catalog.table("kinds")
STEP = GIVEN["sections"]["step"]
STEP["fields"] |= {
    name: [row.get("default"), row["words"]] for name, row in catalog.field_rows().items()
}
STEP["fields"] = {name: STEP["fields"][name] for name in FIELDS["step"] if name in STEP["fields"]}
HEAD = """\
<!-- Written by scripts/fields_page.py, from the catalogue and scripts/fields_page.yml. -->
<!-- skip: start "tests/unit/docs/test_reference_pages.py compares this page with its script" -->

# Fields of pipeline.yml

The tables give the values that each field may have, its default, and its
meaning. Below a table are parts of a `pipeline.yml`, each with the lines that it adds to configs, if you add it to this
pipeline:

"""

WIDTH = 120

Answers = dict[str, Any]


def text() -> str:
    """Return the page."""
    return "".join(_page())


def answers_with(example: str) -> Answers:
    """Return the page's pipeline with what an example adds to it."""
    answers: Answers = deepcopy(GIVEN["pipeline"])
    for field, value in yaml.safe_load(example).items():
        if field == "steps":
            _add_steps(answers["steps"], value)
        elif field == "tensors":
            answers[field] |= value
        else:
            answers[field] = value
    return answers


def list_examples(section: dict[str, Any]) -> list[str]:
    """Return the examples of a section, with an example of each row whose field is in none of them."""
    given: list[str] = section.get("examples", [])
    more = (
        f"steps:\n  - name: classify\n    {name}: {json.dumps(row['example'])}\n"
        for name, row in catalog.field_rows().items()
        if section == STEP and not any(f"    {name}:" in example for example in given)
    )
    return [*given, *more]


def configs(answers: Answers) -> dict[str, str]:
    """Return each config.pbtxt by its model, as the template renders it."""
    return render_configs(rules(), rules().answer(answers))


def _add_steps(steps: list[Answers], more: list[Answers]) -> None:
    named = {step["name"]: step for step in steps}
    for step in more:
        if step["name"] in named:
            named[step["name"]].update(step)
        else:
            steps.append(step)


def _page() -> Iterator[str]:
    yield f"{HEAD}```yaml\n{yaml.safe_dump(GIVEN['pipeline'], sort_keys=False)}```\n"
    before = configs(GIVEN["pipeline"])
    for table, section in GIVEN["sections"].items():
        yield f"\n## {section['title']}\n\n"
        if "text" in section:
            yield f"{fill(section['text'], WIDTH)}\n\n"
        yield "| field | may be | by default | |\n|---|---|---|---|\n"
        for field, (default, words) in section["fields"].items():
            yield f"| `{field}` | {_may_be(FIELDS[table][field])} | {_default(default)} | {words} |\n"
        for example in list_examples(section):
            yield f"\n```yaml\n{example}```\n\n"
            lines = "".join(_added(before, configs(answers_with(example))))
            yield f"```protobuf\n{lines}```\n" if lines else "It adds no line to a config.\n"


def _may_be(kind: str) -> str:
    """Return in words what values of a kind are."""
    of = kind.removeprefix("list of ")
    rule = KINDS.get(of, {})
    choice = ", ".join(f"`{value}`" for value in rule.get("choice", []))
    words = str(rule.get("write") or choice or GIVEN["kinds"].get(of, "a mapping"))
    also = [f"`{value}`" for value in rule.get("also", []) if isinstance(value, str | int)]
    words = ", or ".join([words, *(each for each in also if each.lower().strip("`") not in words)])
    if of == kind:
        return words
    return f"a list of {words[2:]}s" if words in ("a mapping", "a number") else f"a list: {words}"


def _default(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else f"`{str(value).lower()}`"


def _added(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    """Iterate over the lines that configs have more than before, below the names of their files."""
    for name, config in after.items():
        old = before.get(name, "").splitlines(keepends=True)
        lines = [
            line[2:] for line in ndiff(old, config.splitlines(keepends=True)) if line[0] == "+"
        ]
        if lines:
            yield f"# {name}/config.pbtxt\n"
            yield from lines


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
