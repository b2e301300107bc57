"""Shared by tests: `make update` is all or nothing, and keeps what its owner wrote: on a template of a few files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import copier
import pytest
from support import ROOT, SOURCES, Project, run, succeed
from wheels import pack_wheel

from triton_ensemble import __version__

COPIER_YML = """\
_subdirectory: template
_envops: { undefined: jinja2.StrictUndefined }
_skip_if_exists: [/pipeline.yml]
project_name: { type: str, default: p }
steps: { type: yaml, default: "[]" }
"""
GRAPH = {"team": {"given": False, "files": []}, "python_steps": [], "made_models": []}
# The rules of a template without any.
HOOKS = {
    "questions.jinja": "{% macro answers_problems(answers, names) %}{% endmacro %}",
    "validate/pipeline.jinja": "{% macro pipeline_problems(graph, answers, whole) %}{% endmacro %}",
    "graph/graph.jinja": f"{{% macro graph(answers) %}}{json.dumps(GRAPH)}{{% endmacro %}}",
    "exclude/unneeded.jinja": "",
    "messages/after_update.jinja": "",
}
WHEEL = f"vendor/triton_ensemble-{__version__}-py3-none-any.whl"
LINES = "".join(f"line {n} of a file that is long enough to be found again\n" for n in range(20))
HEAD = "# Managed by triton-ensemble-template: edits are merged by `make update`.\n"
FILES = {
    "{{ _copier_conf.answers_file }}.jinja": "{{ dict(_copier_answers, owned=['pipeline.yml']) | to_nice_yaml }}",
    "pipeline.yml": "project_name: p\nsteps: []\n",
    "vendor/project.json": '{"packages": {}, "gpu_count": 0}',
    "Makefile": f"{HEAD}all:\n\t@echo made\n",
    "tools/one.py": HEAD + LINES,
    "tools/two.py": HEAD + LINES.replace("line", "row").replace("file", "text"),
    "tools/three.sh": "#!/bin/sh\n",
    ".gitignore": "built/\n",
}


def commit(folder: Path, tag: str = "") -> None:
    if not (folder / ".git").exists():
        succeed(run("git", "init", "-q", cwd=folder))
    commands = [
        "add --all --force",
        "commit -q --allow-empty -m new",
        *([f"tag {tag}"] if tag else []),
    ]
    for command in commands:
        succeed(run("git", *command.split(), cwd=folder))


def write(folder: Path, **files: str | None) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink() if text is None else path.write_text(text)


class Origin:
    """A template, as the git repository that projects come from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write(folder, **{f"hooks/{name}": text for name, text in HOOKS.items()})
        shutil.copytree(ROOT / "hooks/catalog", folder / "hooks/catalog")
        (folder / "template/vendor").mkdir(parents=True)
        shutil.copyfile(ROOT / "template" / WHEEL, folder / "template" / WHEEL)
        self.release("v1.0.0", **FILES)

    def release(self, tag: str, **files: str | None) -> None:
        """A version in which some files are others."""
        write(self.folder, **{"copier.yml": COPIER_YML})
        write(self.folder / "template", **files)
        pack_wheel(self.folder, SOURCES)
        commit(self.folder, tag)

    def require(self, requirement: str) -> None:
        """Let the toolkit of the next version require a package."""
        wheel = self.folder / "template" / WHEEL
        with zipfile.ZipFile(wheel, "a") as archive:
            [name] = (name for name in archive.namelist() if name.endswith("/METADATA"))
            head, _, _ = archive.read(name).decode().partition("\n\n")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the name is there twice then
                archive.writestr(name, f"{head.rstrip()}\nRequires-Dist: {requirement}\n")


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path / "template")


@pytest.fixture
def project(origin: Origin, tmp_path: Path) -> Project:
    """A project of v1.0.0, committed."""
    copier.run_copy(str(origin.folder), tmp_path / "p", defaults=True, quiet=True)
    commit(tmp_path / "p")
    return Project(tmp_path / "p")


COMMAND = (sys.executable, "-m", "triton_ensemble", "update")


def update(project: Project, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return project.run(*COMMAND, *arguments, **more)


def edit(project: Project, name: str, old: str = "line 3 ", new: str = "mine, ") -> None:
    """A line of its owner's in a managed file, committed."""
    text = (project / name).read_text()
    assert old in text
    (project / name).write_text(text.replace(old, new + old))
    commit(project.path)


NEW = {
    "tools/one.py": f"{HEAD}{LINES}# new\n",
    "tools/three.sh": None,
    "tools/four/five.sh": "#!/bin/sh\necho five\n",
}
CONFLICT = {"tools/one.py": HEAD + LINES.replace("line 3 ", "theirs, line 3 ")}
