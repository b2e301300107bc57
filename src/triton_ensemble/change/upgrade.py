"""The second half of an update, in the toolkit of the new version: render both versions, and compare them."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from triton_ensemble.change import ChangeError
from triton_ensemble.change.git import last_line
from triton_ensemble.change.project import Change, ChangedProject
from triton_ensemble.change.state import State
from triton_ensemble.change.template import Template
from triton_ensemble.check.pipeline.problems import list_problems
from triton_ensemble.compile.render import File, render_project
from triton_ensemble.compile.rules import rules
from triton_ensemble.facts.answers import FILE
from triton_ensemble.facts.reading import iter_files

CHANGELOG = "triton_ensemble/CHANGELOG.md"


class Upgrade:
    """An update of a project from one version of the template to another, in a temporary folder."""

    def __init__(self, state: State, work: Path, old: str, name: str) -> None:
        self._state, self._work, self._name = state, work, name
        self._template = Template(work, state.made)
        self._old_wheel = self._template.take(old, work / "old")
        [self._new_wheel] = (work / "new/vendor").glob("*.whl")

    def compare(self, markers: bool) -> Change:
        """Return what becomes of the files, or raise ChangeError if a version can't be rendered."""
        project = ChangedProject(self._state, rules(self._work / "new"))
        made = {**self._state.made, "_commit": self._name}
        with self._start_rendering() as former:  # meanwhile this process renders the new version
            if problem := next(list_problems(project.answers, project.rules), None):
                raise ChangeError(project.rules.line(problem))
            new = render_project(project.rules, project.answers, made)
            _, said = former.communicate()
        if former.returncode:
            raise ChangeError(f"the project's version of the template fails: {last_line(said)}")
        old, new = self._read_rendered(), new | _list_vendored(self._new_wheel)
        return project.compare(old, new, markers)

    def read_news(self) -> list[str]:
        """Return the lines of the changelog that only the new wheel has, under their headings."""
        known = {*_read_changelog(self._old_wheel)}
        kept: list[str] = []
        for line in reversed(_read_changelog(self._new_wheel) if known else []):
            below = _level(kept[-1]) if kept else 1
            if _level(line) < below if line.startswith("##") else line not in known:
                kept.append(line)
        return kept[::-1]

    def _start_rendering(self) -> subprocess.Popen[bytes]:
        """Start the toolkit of the project's version, which renders the answers of that time."""
        self._template.unpack(self._old_wheel, self._work / "old-toolkit")
        mine = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        paths = [each for each in mine if self._work.name not in each]
        paths.insert(0, "../old-toolkit")  # a path may have a colon, which would end it
        answers, target = self._state.root / FILE, self._work / "old-files"
        words = ["render", "--answers", str(answers), "--into", str(target)]
        return subprocess.Popen(
            [sys.executable, "-m", "triton_ensemble", *words],
            cwd=self._work / "old",
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def _read_rendered(self) -> dict[str, File]:
        folder = self._work / "old-files"
        paths = {path.relative_to(folder).as_posix(): path for path in iter_files(folder)}
        files = {name: File(path.read_bytes(), name) for name, path in paths.items()}
        return files | _list_vendored(self._old_wheel)


def _list_vendored(wheel: Path) -> dict[str, File]:
    """Return the files that no version renders, as a version's repository has them."""
    files = (wheel, wheel.with_name("requirements.txt"))
    return {f"vendor/{f.name}": File(f.read_bytes(), f"vendor/{f.name}") for f in files}


def _level(line: str) -> int:
    """Return the level of a heading, or for other text a level below all headings."""
    return len(line) - len(line.lstrip("#")) or 7


def _read_changelog(wheel: Path) -> list[str]:
    """Return the lines of the changelog that are not empty, or an empty list if the wheel lacks it."""
    with zipfile.ZipFile(wheel) as archive:
        known = CHANGELOG in archive.namelist()
        return [*filter(None, archive.read(CHANGELOG).decode().splitlines())] if known else []
