"""The commands that the documentation names: each target of make, each option of `triton-ensemble` exists."""

from __future__ import annotations

import re
from pathlib import Path

from docs_blocks import PAGES, read_blocks
from support import ROOT, Generate, step

from triton_ensemble.facts import catalog


def read_targets(makefile: Path) -> set[str]:
    """Return what `make` can be asked for."""
    rules = re.findall(r"^([\w$()/. -]+):(?!=)", makefile.read_text(), re.MULTILINE)
    return {name.replace("$(VENV)", ".venv") for rule in rules for name in rule.split()}


def find_made(page: Path) -> set[str]:
    """Return the targets of make that a page names in blocks of commands or in its text."""
    text = page.read_text()
    spans = re.findall(r"`((?:\w+=\S+ )*make\b[^`]*)`", text)
    lines = "\n".join([*read_blocks(text, "sh", "console"), *map(" ".join, map(str.split, spans))])
    lines = re.sub(r"""\w+=('[^']*'|"[^"]*"|\S+)?""", "", lines)
    arguments = re.findall(r"(?:^|\$|&&) *make\b([^#&|\n]*)", lines, re.MULTILINE)
    return {target for each in arguments for target in each.split()}


def test_each_target_that_a_page_names_is_in_a_makefile(generate: Generate) -> None:
    """It is in the Makefile of this repository, or of a project with all extras and engines to build."""
    everything = generate(
        gpu_count=1,
        extras=list(catalog.table("extras")),
        tensors={"A": "FP32[4]", "B": "FP32[4]"},
        steps=[step("net", {"a": "A"}, {"b": "B"}, "tensorrt", trtexec=True)],
    )
    of_project = read_targets(everything / "Makefile")
    made = set().union(*map(find_made, PAGES))
    assert made - of_project - read_targets(ROOT / "Makefile") == set()
    assert len(made) > 30
    for page in ("README.md", "AGENTS.md"):
        assert {"infer", "test"} <= find_made(everything / page) <= of_project


def test_each_option_that_a_page_names_is_one_of_its_command() -> None:
    sections = (ROOT / "docs/cli.md").read_text().split("\n## ")
    helps = {section.partition("\n")[0]: section for section in sections}
    said = re.compile(r"\btriton-ensemble ([a-z-]+)([^`\n|>&]*)")
    named = [
        (page.name, command, option)
        for page in PAGES
        for command, rest in said.findall(page.read_text().replace("\\\n", " "))
        for option in re.findall(r"--[a-z-]+", rest)
    ]
    assert [each for each in named if each[2] not in helps[each[1]]] == []
    assert len(named) > 4
