"""A folder that a stranger has written: whose code each command runs, as docs/security.md says, and what it prints."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from adopt_support import PYTHON, alone, write
from support import ROOT, SOURCES, Generate, Project, run, succeed

from triton_ensemble.author.adopt.written import pipeline_yml
from triton_ensemble.cli import COMMANDS
from triton_ensemble.environment.needs import STATE

PROGRAM = (sys.executable, "-m", "triton_ensemble")
BUCKET = "s3://http://127.0.0.1:9/bucket/models"
# A line of each command that runs nothing of the folder; it reads what a stranger could write there.
LINES = {
    "new": ["new", "made", "--template", "."],
    "add-step": ["add-step"],
    "check": ["check", "model_repository"],
    "explain": ["explain", "parse"],
    "apply": ["apply"],
    "adopt": ["adopt", "model_repository"],
    "format": ["format"],
    "sizes": ["sizes"],
    "store": ["store", BUCKET, "--send"],
    "push": ["push", BUCKET],
    "unload": ["unload", "preprocess", "1"],
    "digests": ["digests"],
    "pin": ["pin"],
    "promote": ["promote", "prod"],
    "render": ["render", "--answers", "pipeline.yml", "--into", "rendered"],
}
MORE_LINES = [
    ["check"],
    ["check", "pipeline.yml"],
    ["check", "--format", "json"],
    ["apply", "--check"],
]
NAMES = """
    vendor/team/rules/evil.py steps/__init__.py steps/preprocess.py models/classify.py setup.py conftest.py
    tests/conftest.py tests/test_evil.py sitecustomize.py usercustomize.py yaml.py numpy.py json.py jinja2.py
    gateway/app.py gateway/routes.py src/step_types.py
    model_repository/preprocess/1/model.py model_repository/classify/1/model.py
"""
TEMPLATES = "vendor/team/team.yml", "vendor/team/files/evil"
GIT = ("core.fsmonitor", "core.sshCommand", "core.pager", "diff.external", "gpg.program")


def table() -> dict[str, str]:
    """Return the table of docs/security.md: by command, whose code it runs."""
    page = (ROOT / "docs/security.md").read_text()
    return dict(re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \|", page, re.MULTILINE))


@pytest.fixture(scope="module")
def strangers(generate: Generate, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project whose every file that could run creates a file in `ran`, and whose pipeline.yml is changed."""
    project = generate()
    (project / "ran").mkdir()
    code = [str(path.relative_to(project.path)) for path in project.path.rglob("*.py")]
    for name in [*NAMES.split(), *code]:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        touch = f"open({str(project / 'ran')!r} + '/{name.replace('/', '-')}', 'w')"
        path.write_text(f"import os\n{touch}\ndef find(repository):\n    return []\n")
    (project / "Makefile").write_text("$(shell touch ran/Makefile)\nx:\n")
    for name in TEMPLATES:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
    evil = "{{ cycler.__init__.__globals__.os.system('touch ran/template') }}"
    (project / TEMPLATES[0]).write_text("files: [evil]\n")
    (project / TEMPLATES[1]).write_text(evil)
    project.commit()
    for number, name in enumerate(GIT):
        succeed(project.run("git", "config", name, f"touch {project / 'ran'}/git-{number}; true"))
    answers = yaml.safe_load((project / "pipeline.yml").read_text())
    (project / "pipeline.yml").write_text(yaml.safe_dump(answers | {"extras": ["monitoring"]}))
    # Its environment looks as `make setup` would leave it, but is not the one that runs.
    (project / ".venv").mkdir()
    (project / ".venv" / STATE).write_text(json.dumps({"root": str(project.path), "toolkit": ""}))
    return project


def test_the_table_has_each_command() -> None:
    assert list(table()) == list(COMMANDS)
    assert {name for name, code in table().items() if code.startswith("none")} == LINES.keys()


@pytest.mark.parametrize("words", [*LINES.values(), *MORE_LINES], ids=" ".join)
def test_a_command_runs_none_of_a_stranger_s_code(strangers: Project, words: list[str]) -> None:
    said = run(*PROGRAM, *words, cwd=strangers.path, PYTHONPATH=str(SOURCES))
    assert [path.name for path in (strangers / "ran").iterdir()] == []
    assert "Traceback" not in said.stderr


REPLAY = ["apply", "apply --undo", "unload preprocess 1", "update"]
PROMISOR = """
    core.repositoryFormatVersion=1 extensions.partialClone=o remote.o.promisor=true
    protocol.ext.allow=always user.name=a user.email=a@example.com
"""
JOURNALS = {
    "hook": [[".git/hooks/pre-commit", "-", ""]],
    "hook by a link": [["hooks/pre-commit", "-", ""]],
    "hook by a new link": [["way/pre-commit", "-", ""], ["way", "-", ""]],
    "outside": [["../out/written", "-", ""]],
    "absolute": [["OUT/written", "-", ""]],
    "types": [{}],
}


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Return the folder of a killed update in a stranger's folder, whose files would become programs."""
    folder = tmp_path / "p/.make-update-x"
    (folder.parent / ".apply").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    succeed(run("git", "init", "--quiet", cwd=folder.parent))
    for name in ("pipeline.yml", ".copier-answers.yml"):
        (folder.parent / name).write_text("extras: []\n")
    (folder.parent / "hooks").symlink_to(".git/hooks")
    folder.mkdir()
    (folder / "pipeline.yml").write_text("extras: []\n")
    (folder / "old-0").write_text("#!/bin/sh\n")
    (folder / "old-1").symlink_to(".git/hooks")
    return folder


def call(journal: Path, words: list[str]) -> str:
    """Return what a command says in a stranger's folder, after checking that it writes nothing elsewhere."""
    project = next(path for path in journal.parents if path.name == "p")
    program = [*PROGRAM, *words] if words else [*PROGRAM[:2], "triton_ensemble.change.stage"]
    said = run(*program, cwd=project, PYTHONPATH=str(SOURCES))
    assert not list(project.parent.glob("out/*"))
    assert not (project / ".git/hooks/pre-commit").exists()
    assert said.returncode == 1
    return said.stderr.rstrip("\n")


@pytest.mark.parametrize(
    ("words", "kind"), [*zip(REPLAY, ["hook"] * 4, strict=True), *(("", kind) for kind in JOURNALS)]
)
def test_no_journal_leads_out_of_its_folder(journal: Path, words: str, kind: str) -> None:
    text = json.dumps(JOURNALS[kind]).replace("OUT", str(journal.parents[1] / "out"))
    (journal / "journal.json").write_text(text)
    if "--undo" in words:
        journal = journal.rename(journal.parent / ".apply/last")
    said = call(journal, words.split())
    assert re.fullmatch(".*journal.json: was not written by a change of this project; .*", said)


@pytest.mark.parametrize("words", REPLAY)
def test_no_command_fetches_what_a_stranger_s_repository_lacks(journal: Path, words: str) -> None:
    project = journal.parent
    ran = project.parent / "ran"
    for each in [*PROMISOR.split(), f"remote.o.url=ext::sh -c touch% {ran}"]:
        succeed(run("git", "config", *each.split("="), cwd=project))
    succeed(run("git", "add", "pipeline.yml", ".copier-answers.yml", cwd=project))
    succeed(run("git", "commit", "--quiet", "-m", "All", cwd=project))
    tree = succeed(run("git", "rev-parse", "HEAD^{tree}", cwd=project)).strip()
    (project / ".git/objects" / tree[:2] / tree[2:]).unlink()
    (journal / "journal.json").write_text("[]")
    if "--undo" in words:
        journal.rename(project / ".apply/last")
    said = run(*PROGRAM, *words.split(), cwd=project, PYTHONPATH=str(SOURCES))
    assert not ran.exists()
    assert "Traceback" not in said.stderr


FORGED = "extras: [ray]"
HOSTILE = f"a\n{FORGED}\x1b]0;\x07\u202e\u2028{FORGED}\r{FORGED}"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def hostile(generate: Generate, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project with names and texts that would forge lines and steer a terminal."""
    project = generate()
    write(project / "model_repository", alone(**{HOSTILE: 'name: "\\033[2J"', "m": PYTHON}))
    write(project / HOSTILE, {HOSTILE: PYTHON})
    for folder in ("model_repository/m/1", "model_repository", "samples", "models", "steps", "."):
        for ending in (".bin", ".py", ".json", ".yml"):
            (project / folder / f"{HOSTILE}{ending}").write_text(HOSTILE)
    (write(project / "good", alone()) / f"m/1/{HOSTILE}").write_text("")
    (project / "good" / HOSTILE).write_text("")
    return project


SHOWN = [
    ["check"],
    ["check", "--format", "github"],
    ["check", f"{HOSTILE}.yml"],
    ["check", HOSTILE],
    ["adopt", "good"],
    ["adopt", "model_repository", "--ensemble", HOSTILE],
    ["fleet", HOSTILE, "."],
    ["infer"],
    ["sample", f"IMAGE=@{HOSTILE}"],
    ["step", HOSTILE],
    ["publish", HOSTILE, "2"],
    ["unload", HOSTILE, "1"],
    ["push", HOSTILE],
    ["sizes"],
    [HOSTILE],
]


@pytest.mark.parametrize("words", SHOWN, ids=lambda words: ascii(" ".join(words))[:40])
def test_no_name_forges_a_line_or_steers_the_terminal(hostile: Project, words: list[str]) -> None:
    said = run(
        *PROGRAM, *words, cwd=hostile.path, PYTHONPATH=str(SOURCES), TRITON_URL="http://127.0.0.1:9"
    )
    printed = said.stdout + said.stderr
    assert UNSAFE.findall(printed) == []
    assert not [line for line in printed.splitlines() if line.startswith(FORGED)]
    assert "Traceback" not in printed
    if words[-1] == "good":
        assert "extras" not in yaml.safe_load(said.stdout)


def test_what_adopt_prints_means_what_it_says_of_any_text() -> None:
    answers = {
        "tensors": {HOSTILE: "FP32[1]"},
        "steps": [{"config": HOSTILE, "name": "\x85x\u202e"}],
    }
    text = pipeline_yml(answers, [])
    assert yaml.safe_load(text) == answers
    assert UNSAFE.findall(text) == []
