"""The template's repository: its address, its versions, and the files of a version that an update takes.

Addresses and versions are read as Copier reads them, so that `copier update` finds the same ones.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from triton_ensemble.change import ChangeError
from triton_ensemble.change.git import git_aside
from triton_ensemble.facts.answers import FILE, Answers
from triton_ensemble.facts.reading import MIB

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
VENDOR = "template/vendor/"
CLONE = "template.git"
DESCRIBED = re.compile(r"(.+)-(\d+)-g[0-9a-f]+")  # a tag, and the commits since


class Template:
    """A clone of the template that a project was made from, in a temporary folder."""

    def __init__(self, work: Path, made: Answers) -> None:
        self.folder, self.source = work / CLONE, str(made.get("_src_path"))

    @classmethod
    def clone(cls, work: Path, made: Answers, root: Path) -> Template:
        """Clone the template that the answers of the project in `root` name."""
        template = cls(work, made)
        url = find_address(template.source, root)
        partial = [] if Path(url).exists() else ["--filter=blob:none"]
        options = ("--quiet", "--bare", "--template=", *partial)
        template.folder.mkdir()
        template._git("clone", *options, "--", url, ".")
        return template

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        try:
            return git_aside(self.folder, *arguments, given=given)
        except ChangeError as error:
            if shutil.disk_usage(self.folder).free < MIB:  # git names any file then
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder)) from error
            said = str(error).removeprefix("git: ")
            raise self.error(f"git says: {said}; do the template and the network exist?") from error

    def _ask(self, *arguments: str, given: bytes = b"") -> str:
        return self._git(*arguments, given=given).decode().strip()

    def error(self, what: str) -> ChangeError:
        """Return an error about the template."""
        return ChangeError(f"{FILE}: _src_path {self.source}: {what}")

    def find_commit(self, version: str) -> str:
        """Return the commit of a tag, a branch or a commit's name, or raise ChangeError if there is none."""
        given = f"{version}^{{commit}}\n".encode()
        found = self._ask("cat-file", "--batch-check=%(objectname)", given=given)
        if "\n" in version or not re.fullmatch("[0-9a-f]{40,64}", found):
            raise self.error(f"is not a template with the version {version}; {INSTEAD}")
        return found

    def find_newest(self, prereleases: bool) -> str:
        """Return the newest tag that is a version, or HEAD."""
        tags = self._ask("for-each-ref", "--format=%(refname:strip=2)", "refs/tags").split()
        known = {version: tag for tag in tags if (version := _parse(tag))}
        found = [each for each in known if prereleases or not each.is_prerelease]
        return known[max(found)] if found else "HEAD"

    def describe(self, commit: str) -> str:
        """Return a commit's name by the tag before it, as .copier-answers.yml records it."""
        return self._ask("describe", "--tags", "--always", commit)

    def refuse_downgrade(self, made: str, old: str, new: str) -> None:
        """Raise ChangeError unless the commit `new` is a version that is not behind `old`, which the answers call `made`."""
        was = self._read_version(old, f"_commit {made}")
        if was > self._read_version(new, f"{self.describe(new)} of the template"):
            raise ChangeError(f"{FILE}: _commit {made} {BEHIND}")

    def _read_version(self, commit: str, named: str) -> Version:
        name = self.describe(commit)
        if since := DESCRIBED.fullmatch(name):
            name = f"{since[1]}.post{since[2]}"
        elif re.fullmatch("[0-9a-f]{7,64}", name):  # before the first tag
            name = f"0.post{self._ask('rev-list', '--count', commit)}"
        if version := _parse(name):
            return version
        raise ChangeError(f"{FILE}: {named} {NO_VERSION}")

    def take(self, commit: str, folder: Path) -> Path:
        """Write a version's wheel, its hash and the files in team/ into vendor/ in a folder, and return the wheel."""
        wheels = []
        listed = self._ask("ls-tree", "-r", "-z", commit, "--", VENDOR, "team/")
        for entry in filter(None, listed.split("\0")):
            facts, path = entry.split("\t", 1)
            mode, kind, blob = facts.split()
            is_needed = path.startswith("team/") or path.endswith((".whl", "/requirements.txt"))
            if kind == "blob" and mode != "120000" and is_needed:
                target = folder / "vendor" / path.removeprefix(VENDOR)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self._git("cat-file", "blob", blob))
                wheels += [target] * path.endswith(".whl")
        if len(wheels) != 1:
            name = self.describe(commit)
            raise self.error(f"its version {name} does not have one wheel in {VENDOR}; {INSTEAD}")
        return wheels[0]

    def unpack(self, wheel: Path, folder: Path) -> None:
        """Unpack a toolkit, because its templates need paths.

        Raise ChangeError if its hash is not the one in the file beside it.
        """
        content, hashes = wheel.read_bytes(), wheel.with_name("requirements.txt")
        if hashlib.sha256(content).hexdigest() not in hashes.read_text(errors="replace"):
            raise self.error(f"{wheel.name} does not have the hash in {hashes.name} beside it")
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                archive.extractall(folder)
        except (zipfile.BadZipFile, ValueError) as error:
            raise self.error(f"{wheel.name} is not a wheel: {error}") from error

    def read(self, commit: str, path: str) -> str:
        """Return a text of a version, or an empty text if there is none."""
        found = self._ask("ls-tree", commit, "--", path)
        return self._ask("cat-file", "blob", f"{commit}:{path}") if found else ""


def _parse(name: str) -> Version | None:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(name)
    except InvalidVersion:
        return None


def find_address(source: str, root: Path) -> str:
    """Return what git clones, a URL or an absolute path, or raise ChangeError if a folder is not there."""
    for pattern, replacement in REPLACEMENTS.items():
        if match := re.fullmatch(pattern, source):
            source = match.expand(replacement)
    if source.startswith(REMOTE) or (source.endswith(".git") and not _is_here(source, root)):
        is_short = source.startswith("https://") and not source.endswith(".git")
        return source.removeprefix("git+") + ".git" * is_short
    if not _is_here(source, root):
        raise ChangeError(f"{FILE}: _src_path {source}: is not a folder here; {INSTEAD}")
    return os.path.abspath(root / Path(source).expanduser())


def _is_here(source: str, root: Path) -> bool:
    try:
        return (root / Path(source).expanduser()).exists()
    except (OSError, RuntimeError, ValueError):
        return False
