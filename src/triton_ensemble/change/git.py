"""Runs git without the owner's hooks, and with one line for what went wrong."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

from triton_ensemble.change import ChangeError

Environment = dict[str, str]
NOTHING: Environment = {}
# Nothing of the owner's runs, and no index is refreshed by the way.
QUIET = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false", "--no-optional-locks")
# Out of their repository files are as commits have them.
AS_COMMITTED = ("-c", f"core.attributesFile={os.devnull}", "-c", "core.autocrlf=false")
# What a hook that runs `make update` has, of another repository than a temporary one.
LOCAL = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
# If an object is missing in a partial clone, git asks the remote: a stranger's settings may name a command for that.
NO_FETCH = {"GIT_NO_LAZY_FETCH": "1"}


def git(folder: Path, *arguments: str) -> bytes:
    """Return what git prints in the owner's repository, or raise ChangeError with git's own line."""
    return _check(_run(folder, arguments, b"", os.environ | NO_FETCH))


def list_skipped(root: Path) -> set[str]:
    """Return the files that a sparse checkout leaves out. The set is empty outside git."""
    return {entry[2:] for entry in _list_files(root, "-t") if entry.startswith("S ")}


def list_ignored(root: Path, paths: Collection[str]) -> set[str]:
    """Return which of some files git ignores. The set is empty if the project is not in git."""
    options = ("--others", "--ignored", "--exclude-standard", "--", *paths)
    return _list_files(root, *options) if paths else set()


def _list_files(root: Path, *options: str) -> set[str]:
    try:
        listed = git(root, "--literal-pathspecs", "ls-files", "-z", *options)
    except ChangeError:
        return set()
    return {*listed.decode(errors="surrogateescape").split("\0")}


def parse_renames(said: bytes) -> Iterator[tuple[str, str]]:
    """Yield the former and the new paths of renames in what git prints with -z and --name-status."""
    words = iter(said.decode(errors="surrogateescape").split("\0"))
    for word in words:
        if re.fullmatch(r"\n?R\d+", word):
            yield next(words), next(words)


def git_aside(
    folder: Path, *arguments: str, given: bytes = b"", more: Environment = NOTHING
) -> bytes:
    """Return what git prints outside the owner's repository. `more` is added to its environment."""
    return _check(run_aside(folder, *arguments, given=given, more=more))


def run_aside(
    folder: Path, *arguments: str, given: bytes = b"", more: Environment = NOTHING
) -> subprocess.CompletedProcess[bytes]:
    """Run git out of the owner's repository, whatever its exit status is."""
    environment = {name: value for name, value in os.environ.items() if name not in LOCAL}
    words = (*AS_COMMITTED, "--literal-pathspecs", *arguments)
    return _run(folder, words, given, environment | more)


def _run(
    folder: Path, words: tuple[str, ...], given: bytes, environment: Environment
) -> subprocess.CompletedProcess[bytes]:
    command = ["git", *QUIET, *words]
    english = environment | {"LC_ALL": "C"}  # git's own lines are read here
    try:
        return subprocess.run(command, cwd=folder, env=english, input=given, capture_output=True)
    except FileNotFoundError as error:
        raise ChangeError("git: is not found; install it, then run this again") from error


def _check(process: subprocess.CompletedProcess[bytes]) -> bytes:
    if process.returncode:
        raise ChangeError(f"git: {last_line(process.stderr)}")
    return process.stdout


def last_line(said: bytes) -> str:
    """Return git's `fatal: ` line without that word, or else the last line."""
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    fatal = [line.partition("fatal: ")[2] for line in lines if "fatal: " in line]
    return [*fatal, *lines[-1:], "it failed"][0]
