"""The template's repository: its address, its versions, and the files of a version that an update takes.

Addresses and versions are read as Copier reads them, so that `copier update` finds the same ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from triton_ensemble.answers import FILE, Answers
from triton_ensemble.change.git import UpdateError, git_aside

if TYPE_CHECKING:
    from packaging.version import Version

REPLACEMENTS = {
    r"gh:/?(.*?)(\.git)?": r"https://github.com/\1.git",
    r"gl:/?(.*?)(\.git)?": r"https://gitlab.com/\1.git",
}
REMOTE = ("git@", "git://", "git+", "https://github.com/", "https://gitlab.com/")
CURRENT = ":current:"  # the version that the project has
INSTEAD = "write the template's URL or its absolute path, and commit"
NO_VERSION = "is not a version; tag the template vX.Y.Z+team.N, write that, and commit"
BEHIND = (
    "is newer than the template's newest version; wait for "
    "the next, or apply pipeline.yml alone: make apply"
)
VENDOR = "template/vendor"
DESCRIBED = re.compile(r"(.+)-(\d+)-g[0-9a-f]+")  # a tag, and the commits since


class Template:
    """A clone of the template that a project was made from, in a temporary folder."""

    def __init__(self, folder: Path, source: str) -> None:
        self.folder, self.source = folder, source

    @classmethod
    def clone(cls, folder: Path, made: Answers, root: Path) -> Template:
        """Clone the template that the answers of the project in `root` name."""
        source = str(made.get("_src_path"))
        template, url = cls(folder, source), find_address(source, root)
        partial = [] if Path(url).exists() else ["--filter=blob:none"]
        options = ("--quiet", "--bare", "--template=", *partial)
        template._ask(folder.parent, "clone", *options, "--", url, str(folder))
        return template

    def git(self, *arguments: str, given: bytes = b"") -> str:
        """Return what git prints in the clone."""
        return self._ask(self.folder, *arguments, given=given).decode().strip()

    def _ask(self, folder: Path, *arguments: str, given: bytes = b"") -> bytes:
        try:
            return git_aside(folder, *arguments, given=given)
        except UpdateError as error:
            if not str(error).startswith("update: git: "):
                raise
            said = str(error).removeprefix("update: git: ")
            raise self.error(f"git says: {said}; do the template and the network exist?") from error

    def error(self, what: str) -> UpdateError:
        """Return an error about the template."""
        return UpdateError(f"{FILE}: _src_path {self.source}: {what}")

    def find_commit(self, version: str) -> str:
        """Return the commit of a tag, a branch or a commit's name; UpdateError if there is none."""
        given = f"{version}^{{commit}}\n".encode()
        found = self.git("cat-file", "--batch-check=%(objectname)", given=given)
        if "\n" in version or not re.fullmatch("[0-9a-f]{40,64}", found):
            raise self.error(f"is not a template with the version {version}; {INSTEAD}")
        return found

    def find_newest(self, prereleases: bool) -> str:
        """Return the newest tag that is a version, or HEAD."""
        from packaging.version import InvalidVersion, Version

        versions: dict[Version, str] = {}
        for tag in self.git("for-each-ref", "--format=%(refname:strip=2)", "refs/tags").split():
            try:
                versions[Version(tag)] = tag
            except InvalidVersion:
                continue
        found = [each for each in versions if prereleases or not each.is_prerelease]
        return versions[max(found)] if found else "HEAD"

    def describe(self, commit: str) -> str:
        """Return a commit's name by the tag before it, as .copier-answers.yml records it."""
        return self.git("describe", "--tags", "--always", commit)

    def refuse_downgrade(self, made: str, old: str, new: str) -> None:
        """Raise UpdateError unless the commit `new` is a version that is not behind `old`, which the answers call `made`."""
        was, now = (
            self._read_version(old, f"_commit {made}"),
            self._read_version(new, f"{self.describe(new)} of the template"),
        )
        if was > now:
            raise UpdateError(f"{FILE}: _commit {made} {BEHIND}")

    def _read_version(self, commit: str, named: str) -> Version:
        from packaging.version import InvalidVersion, Version

        try:
            return Version(self._make_version(commit))
        except InvalidVersion as error:
            raise UpdateError(f"{FILE}: {named} {NO_VERSION}") from error

    def _make_version(self, commit: str) -> str:
        name = self.describe(commit)
        if since := DESCRIBED.fullmatch(name):
            return f"{since[1]}.post{since[2]}"
        if re.fullmatch("[0-9a-f]{7,64}", name):  # before the first tag
            return f"0.post{self.git('rev-list', '--count', commit)}"
        return name

    def take(self, commit: str, folder: Path) -> Path:
        """Write into vendor/ in a folder what a project gets of a version besides rendered files; return the wheel."""
        wheels = []
        for path, blob in self._list_files(commit):
            inside = path.removeprefix("template/")
            target = folder / (f"vendor/{path}" if path.startswith("team/") else inside)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self._ask(self.folder, "cat-file", "blob", blob))
            wheels += [target] * path.endswith(".whl")
        if len(wheels) != 1:
            name = self.describe(commit)
            raise self.error(f"its version {name} does not have one wheel in {VENDOR}/; {INSTEAD}")
        return wheels[0]

    def read(self, commit: str, path: str) -> str:
        """Return a text of a version, empty if there is none."""
        found = self.git("ls-tree", commit, "--", path)
        return self.git("cat-file", "blob", f"{commit}:{path}") if found else ""

    def _list_files(self, commit: str) -> Iterator[tuple[str, str]]:
        """Yield the path and the blob of a version's wheel, of its hash, and of the files in team/."""
        listed = self.git("ls-tree", "-r", "-z", commit, "--", f"{VENDOR}/", "team/")
        for entry in filter(None, listed.split("\0")):
            facts, path = entry.split("\t", 1)
            mode, kind, blob = facts.split()
            wanted = path.startswith("team/") or path.endswith((".whl", "/requirements.txt"))
            if kind == "blob" and mode != "120000" and wanted:
                yield path, blob


def find_address(source: str, root: Path) -> str:
    """Return what git clones: a URL or an absolute path; UpdateError if a folder is not there."""
    for pattern, replacement in REPLACEMENTS.items():
        if match := re.fullmatch(pattern, source):
            source = match.expand(replacement)
    if source.startswith(REMOTE) or (source.endswith(".git") and not _is_here(source, root)):
        is_short = source.startswith("https://") and not source.endswith(".git")
        return source.removeprefix("git+") + ".git" * is_short
    if not _is_here(source, root):
        raise UpdateError(f"{FILE}: _src_path {source}: is not a folder here; {INSTEAD}")
    return os.path.abspath(root / Path(source).expanduser())


def _is_here(source: str, root: Path) -> bool:
    try:
        return (root / Path(source).expanduser()).exists()
    except (OSError, RuntimeError, ValueError):
        return False
