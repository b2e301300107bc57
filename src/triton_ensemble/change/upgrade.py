"""The second half of an update, in the toolkit of the new version: render both versions, and compare them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from pathlib import Path

from triton_ensemble.answers import FILE
from triton_ensemble.change.git import UpdateError, last_line, make_aside_environment
from triton_ensemble.change.project import Change, ChangedProject
from triton_ensemble.change.start import CLONE, VERSIONS, Versions, unpack
from triton_ensemble.change.state import State
from triton_ensemble.change.template import Template
from triton_ensemble.check.pipeline.problems import list_problems
from triton_ensemble.pipeline.render import File, render_project, write_files
from triton_ensemble.pipeline.rules import rules
from triton_ensemble.reading import iter_files

RENAMES = ("-z", "-M", "-l0", "--diff-filter=R", "--name-status")


class Upgrade:
    """An update of a project from one version of the template to another, in a temporary folder."""

    def __init__(self, state: State, work: Path) -> None:
        self.state, self.work = state, work
        self.versions = Versions(**json.loads((work / VERSIONS).read_text()))
        self.template = Template(work / CLONE, str(state.made.get("_src_path")))
        self.old_wheel = self.template.take(self.versions.old, work / "old")
        [self.new_wheel] = (work / "new/vendor").glob("*.whl")

    def compare(self, markers: bool) -> Change:
        """Return what becomes of the files; UpdateError if a version can't be rendered."""
        project = ChangedProject(self.state, rules(self.work / "new"))
        made = {**self.state.made, "_commit": self.versions.name}
        with self._start_rendering() as former:  # meanwhile this process renders the new version
            _refuse(project)
            rendered = render_project(project.rules, project.answers, made)
            write_files(rendered, self.work / "new-files")
            _, said = former.communicate()
        if former.returncode:
            what = last_line(said.decode(errors="replace"))
            raise UpdateError(f"update: the project's version of the template fails: {what}")
        old, new = self._read_rendered(), rendered | _list_vendored(self.new_wheel)
        return project.compare(old, new, self._find_moves(), markers)

    def _start_rendering(self) -> subprocess.Popen[bytes]:
        """Start the toolkit of the project's version, which renders the answers of that time."""
        mine = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        paths = [each for each in mine if not each.startswith(str(self.work))]
        if not _is_installed(self.old_wheel):  # there its templates are compiled
            unpack(self.template, self.old_wheel, self.work / "old-toolkit")
            paths.insert(0, str(self.work / "old-toolkit"))
        command = [sys.executable, "-m", "triton_ensemble", "render"]
        answers = ["--answers", str(self.state.root / FILE), "--into", str(self.work / "old-files")]
        return subprocess.Popen(
            [*command, *answers],
            cwd=self.work / "old",
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def _read_rendered(self) -> dict[str, File]:
        folder = self.work / "old-files"
        paths = {path.relative_to(folder).as_posix(): path for path in iter_files(folder)}
        files = {name: File(path.read_bytes(), name) for name, path in paths.items()}
        return files | _list_vendored(self.old_wheel)

    def _find_moves(self) -> Mapping[str, str]:
        """Return the new paths of files that have another in the new version, as git detects renames."""
        command = ["git", "diff", "--no-index", *RENAMES, "old-files", "new-files"]
        run = subprocess.run(
            command, cwd=self.work, env=make_aside_environment(), capture_output=True
        )
        if run.returncode > 1:
            raise UpdateError(f"update: git: {last_line(run.stderr.decode(errors='replace'))}")
        words = iter(run.stdout.decode(errors="surrogateescape").split("\0")[:-1])
        return {
            old.partition("/")[2]: new.partition("/")[2]
            for _, old, new in zip(words, words, words, strict=True)
        }


def _is_installed(wheel: Path) -> bool:
    """Return whether the environment has the files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        [record] = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        files = {*archive.read(record).decode().splitlines()} - {f"{record},,"}
    found = importlib.metadata.distributions(
        name="triton-ensemble", path=[sysconfig.get_path("purelib")]
    )
    return any(files <= {*(each.read_text("RECORD") or "").splitlines()} for each in found)


def _refuse(project: ChangedProject) -> None:
    """Raise UpdateError for what is wrong with the answers of pipeline.yml."""
    if problem := next(list_problems(project.answers, project.rules), None):
        raise UpdateError(project.rules.line(problem))


def _list_vendored(wheel: Path) -> dict[str, File]:
    """Return the files that no version renders, as a version's repository has them."""
    files = (wheel, wheel.with_name("requirements.txt"))
    return {f"vendor/{f.name}": File(f.read_bytes(), f"vendor/{f.name}") for f in files}
