"""The pictures that scripts/record.py makes: they show what the commands print today."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from docs_blocks import read_blocks
from site_support import foreign
from support import COPIER, ROOT, VENV, Project, run, succeed

FIRST_MINUTE, CHANGE = ROOT / "docs/first-minute.svg", ROOT / "docs/change.svg"
SVG = "{http://www.w3.org/2000/svg}"
PROMPT = "$ "
COLUMNS = 110


def shown(picture: Path = FIRST_MINUTE) -> set[str]:
    """Return the lines that a picture ever shows."""
    groups = ElementTree.parse(picture).iter(f"{SVG}g")
    texts = ("".join(text.text or "" for text in group.findall(f"{SVG}text")) for group in groups)
    return {line(text) for text in texts}


def line(text: str) -> str:
    return " ".join(text.split())


def commands(program: str, picture: Path = FIRST_MINUTE) -> list[str]:
    """Return what was typed whole that begins with a program. While it is typed, it is shown in part."""
    typed = [text for text in shown(picture) if text.startswith(f"{PROMPT}{program}")]
    return [text.removeprefix(PROMPT) for text in sorted(typed, key=len)[-1:]]


@pytest.fixture
def project(default_project: Project, tmp_path: Path) -> Project:
    """Return a default project that a test may change."""
    return Project(Path(shutil.copytree(default_project.path, tmp_path / "myproj")))


@pytest.mark.parametrize("picture", [FIRST_MINUTE, CHANGE], ids=lambda picture: picture.stem)
def test_it_is_small_and_loads_nothing(picture: Path) -> None:
    text = picture.read_text()
    assert len(text) < 300_000
    assert foreign(text) == []
    assert not re.search(r"<script|/tmp/|/home/|/root/|file:", text)


def test_it_types_the_commands_of_the_readme() -> None:
    first = read_blocks((ROOT / "README.md").read_text(), "sh")[0].splitlines()
    assert first
    assert [command for command in first if f"{PROMPT}{command}" not in shown()] == []


def test_it_shows_what_a_copy_says(template: Path, tmp_path: Path) -> None:
    printed = run(str(COPIER), "copy", "--defaults", str(template), "myproj", cwd=tmp_path)
    message = printed.stderr.partition("image-classification is ready")
    assert message[1]
    assert [
        text for text in map(line, "".join(message[1:]).splitlines()) if text not in shown()
    ] == []


@pytest.mark.slow
def test_it_shows_the_answers(project: Project) -> None:
    succeed(project.make("repository"))
    answers = re.findall(r"^(?:\S+:| +LABEL: .*)$", succeed(project.make("infer")), re.MULTILINE)
    assert len(answers) > 4
    assert [text for text in map(line, answers) if text not in shown()] == []


def test_it_shows_how_a_slip_is_named(project: Project) -> None:
    [slip], [check] = commands("sed"), commands(".venv/bin/triton-ensemble")
    (project / ".venv").symlink_to(VENV)
    succeed(project.run("bash", "-c", slip))
    refused = project.run("bash", "-c", check)
    assert refused.returncode == 1
    named = (refused.stdout + refused.stderr).splitlines()
    assert named
    assert [text for text in map(line, named) if text not in shown()] == []


@pytest.mark.slow
def test_it_shows_a_change_and_the_files_that_it_touches(project: Project) -> None:
    succeed(project.make("repository"))
    project.commit()
    [edit] = commands("sed", CHANGE)
    succeed(project.run("bash", "-c", edit))
    printed = [succeed(project.make(target)) for target in ("check", "infer")]
    lines = "".join([*printed, project.changes()]).splitlines()
    wrapped = [text[at : at + COLUMNS] for text in lines for at in range(0, len(text), COLUMNS)]
    assert len(wrapped) > 20
    assert [
        text for text in map(line, wrapped) if text not in shown(CHANGE) and "://" not in text
    ] == []
