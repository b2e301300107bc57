"""Runs git for an update: without the owner's hooks, and with one line for what went wrong."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection
from pathlib import Path

# In the owner's repository: nothing of theirs runs, and no index is refreshed by the way.
QUIET = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false", "--no-optional-locks")
# In temporary repositories, also those that Copier makes: besides, files are as commits have them.
SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "commit.gpgSign": "false",
    "user.name": "triton-ensemble",
    "user.email": "update@triton-ensemble.invalid",
}
# What a hook that runs `make update` has, of another repository than a temporary one.
LOCAL = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")

Where = dict[str, str]
NOWHERE: Where = {}
ENGLISH = {"LC_ALL": "C"}  # git's own lines are read here
# If an object is missing in a partial clone, git asks the remote: a stranger's settings may name a command for that.
NO_FETCH = {"GIT_NO_LAZY_FETCH": "1"}


class UpdateError(Exception):
    """Why there was no update, as one line: where, what, what to do."""


def git(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Return what git prints in the owner's repository; raise UpdateError with git's own line."""
    return _run(folder, ["git", *QUIET, *arguments], given, os.environ | ENGLISH | NO_FETCH)


def list_skipped(root: Path) -> set[str]:
    """Return the files that a sparse checkout leaves out; none if the project is not in git."""
    try:
        listed = git(root, "ls-files", "-t", "-z").decode(errors="surrogateescape")
    except UpdateError:
        return set()
    return {entry[2:] for entry in listed.split("\0") if entry.startswith("S ")}


def list_ignored(root: Path, paths: Collection[str]) -> set[str]:
    """Return which of some files git ignores; none if the project is not in git."""
    options = ("--others", "--ignored", "--exclude-standard", "-z", "--", *paths)
    try:
        listed = git(root, "--literal-pathspecs", "ls-files", *options) if paths else b""
    except UpdateError:
        return set()
    return {*listed.decode(errors="surrogateescape").split("\0")}


def git_aside(folder: Path, *arguments: str, given: bytes = b"", where: Where = NOWHERE) -> bytes:
    """Return what git prints in a temporary repository; `where` is added to its environment."""
    return _run(folder, ["git", *arguments], given, make_aside_environment() | where)


def make_aside_environment() -> dict[str, str]:
    """Return the environment of commands in temporary repositories."""
    environment = {name: value for name, value in os.environ.items() if name not in LOCAL}
    first = int(environment.get("GIT_CONFIG_COUNT") or 0)
    for number, (name, value) in enumerate(SETTINGS.items(), first):
        environment |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    count = str(first + len(SETTINGS))
    environment |= {"PYTHONSAFEPATH": "1"}  # no module of the project in place of a library's
    return environment | ENGLISH | {"GIT_CONFIG_COUNT": count, "GIT_LITERAL_PATHSPECS": "1"}


def _run(folder: Path, command: list[str], given: bytes, environment: dict[str, str]) -> bytes:
    try:
        process = subprocess.run(
            command, cwd=folder, env=environment, input=given, capture_output=True
        )
    except FileNotFoundError as error:
        raise UpdateError("update: needs git; install it, then run: make update") from error
    if process.returncode:
        raise UpdateError(f"update: git: {last_line(process.stderr.decode(errors='replace'))}")
    return process.stdout


def last_line(text: str) -> str:
    """Return git's `fatal: ` line without that word, or else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fatal = [line.partition("fatal: ")[2] for line in lines if "fatal: " in line]
    return [*fatal, *lines[-1:], "it failed"][0]
