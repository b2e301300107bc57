"""The project's last commit in a temporary folder, where an update is made before the project has it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from triton_ensemble.answers import FILE
from triton_ensemble.change.git import UpdateError, git, git_aside, make_aside_environment

KEPT = ".before-update"  # a folder of what the owner wrote and the update has no place for
COPIER_SAYS = ("Keeping template version", "Updating to template version")  # before it is so
RAW = "* -text -ident -filter -working-tree-encoding\n"


class Unmerged(NamedTuple):
    """A version of a file with a conflict: 1 of the last update, 2 mine, 3 new."""

    mode: str
    blob: str
    stage: str
    path: str


class Aside:
    """A git repository with the project alone, at its top, whatever repository the project is in."""

    def __init__(self, root: Path, work: Path) -> None:
        """Check out the last commit of the project in `root` into the empty folder `work`."""
        self.root, self.work, self.project = root, work, work / "project"
        objects = git(root, "rev-parse", "--path-format=absolute", "--git-path", "objects")
        self.prefix = os.fsdecode(git(root, "rev-parse", "--show-prefix")).rstrip("\n")
        self.commit = git(root, "rev-parse", "--short", "HEAD").decode().strip()
        tree = git(root, "rev-parse", f"HEAD:{self.prefix}").decode().strip()
        git_aside(work, "init", "--quiet", "--template=", "project")
        for name, text in (("objects/info/alternates", objects), ("info/attributes", RAW.encode())):
            path = self.project / ".git" / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text)
        self.git("reset", "--quiet", "--hard", self._commit_tree(tree))

    def git(self, *arguments: str, given: bytes = b"") -> bytes:
        """Return what git prints in this repository."""
        return git_aside(self.project, *arguments, given=given)

    def _commit_tree(self, tree: str) -> str:
        return self.git("commit-tree", tree, "-m", "The project").decode().strip()

    def update(self, version: str, prereleases: bool) -> str:
        """Run `copier update`; return what the template says about it, or raise UpdateError."""
        said = self._render("update", str(self.project), version, "1" * prereleases)
        lines = [line for line in said.splitlines() if not line.startswith(COPIER_SAYS)]
        return "\n".join(lines).strip()

    @cached_property
    def last_update(self) -> Path:
        """A folder with what the project was made from: the files as no owner has edited them."""
        self._render("copy", str(self.work / "last"), given=self.read_before(FILE))
        return self.work / "last"

    @cached_property
    def this_update(self) -> Path:
        """A folder with what the updated project is made from."""
        self._render("copy", str(self.work / "this"), given=(self.project / FILE).read_bytes())
        return self.work / "this"

    def _render(self, *arguments: str, given: bytes = b"") -> str:
        command = [sys.executable, "-m", "triton_ensemble.change.render", *arguments]
        process = subprocess.run(
            command,
            cwd=self.root,
            env=make_aside_environment() | {"TMPDIR": str(self.work)},
            input=given,
            capture_output=True,
        )
        lines = process.stderr.decode(errors="replace")
        if process.returncode:
            raise UpdateError(
                (lines.splitlines() or [f"update: Copier ends with {process.returncode}"])[-1]
            )
        return lines

    def answers(self) -> dict[str, Any]:
        """Return the current answers of the project."""
        try:
            return dict(yaml.safe_load((self.project / FILE).read_bytes()))
        except (TypeError, ValueError, yaml.YAMLError) as error:
            problem = f"{FILE}: does not have answers in YAML; restore it from an older commit"
            raise UpdateError(problem) from error

    def read_before(self, path: str) -> bytes:
        """Return a file of the last commit; empty where there is none."""
        found = self.git("ls-tree", "-z", "HEAD", path)
        return self.git("cat-file", "blob", f"HEAD:{path}") if b" blob " in found else b""

    def tree(self, folder: Path) -> str:
        """Return the git tree of a folder, with all that is in it."""
        where = {
            "GIT_DIR": str(self.project / ".git"),
            "GIT_WORK_TREE": str(folder),
            "GIT_INDEX_FILE": str(self.work / "index"),
        }
        git_aside(folder, "read-tree", "HEAD", where=where)
        git_aside(folder, "add", "--all", "--force", ".", where=where)
        return git_aside(folder, "write-tree", where=where).decode().strip()

    def changes(self) -> dict[str, str]:
        """Return what became of each file that differs from the last commit: A, M, T or D by path."""
        tree = self.tree(self.project)
        found = self.git("diff-tree", "-r", "-z", "--no-renames", "--name-status", "HEAD", tree)
        words = iter(found.decode(errors="surrogateescape").split("\0")[:-1])
        return {path: status for status, path in zip(words, words, strict=True)}

    def find_moved(self, files: Iterable[str]) -> dict[str, str]:
        """Return the new paths of files of the last commit that are elsewhere now, by the old ones."""
        paths = list(files)
        return self.moves("HEAD", self.tree(self.project), paths) if paths else {}

    def conflicts(self) -> set[str]:
        """Return the files with conflicts."""
        return {entry.path for entry in self.list_unmerged()}

    def moves(self, old: str, new: str, paths: Iterable[str]) -> dict[str, str]:
        """Return the new names of files that have another in the tree `new`, as git detects renames."""
        options = ("-r", "-z", "-M", "-l0", "--diff-filter=R", "--name-status")
        found = self.git("diff-tree", *options, old, new, "--", *paths)
        words = iter(found.decode(errors="surrogateescape").split("\0")[:-1])
        return {before: after for _, before, after in zip(words, words, words, strict=True)}

    def list_unmerged(self) -> list[Unmerged]:
        """Return the versions of the files with conflicts."""
        entries = self.git("ls-files", "--unmerged", "-z").decode(errors="surrogateescape")
        halves = (entry.split("\t", 1) for entry in entries.split("\0")[:-1])
        return [Unmerged._make([*facts.split(), path]) for facts, path in halves]

    def save(self, path: str, content: bytes) -> str:
        """Keep what the owner wrote, where neither git nor Triton takes it up; return the place."""
        place = f"{KEPT}/{self.commit}/{path}"
        (self.project / place).parent.mkdir(parents=True, exist_ok=True)
        (self.project / place).write_bytes(content)
        (self.project / KEPT / ".gitignore").write_text("*\n")
        return place


@contextmanager
def aside(root: Path) -> Iterator[Aside]:
    """Make one for as long as a `with` block lasts."""
    with tempfile.TemporaryDirectory(prefix="update-", ignore_cleanup_errors=True) as work:
        yield Aside(root, Path(work).resolve())
