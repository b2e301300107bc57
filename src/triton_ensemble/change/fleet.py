"""Print how projects stand: their versions of the template, and what each needs.

Name folders, git URLs, or a text file with a folder or URL on each line. `#` begins a comment. The command
clones URLs into a temporary folder, and changes no project.

  behind    versions of the template that the project does not have yet
  edited    managed files with edits, which an update merges
  faults    known faults of the project's Triton release, each a line below the table
  green     day of the last successful run of ci.yml on a push, if `gh` is installed and knows it

The toolkit in the project's own vendor/ finds its edits. Name only repositories that you trust.

Exit status: 0, or 1 if a project could not be read. A line on stderr says why.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from triton_ensemble.change import ChangeError
from triton_ensemble.change.git import git_aside
from triton_ensemble.change.state import read_state
from triton_ensemble.check.repository import Repository
from triton_ensemble.check.rules import RULES
from triton_ensemble.facts.answers import FILE
from triton_ensemble.facts.reading import DATA_BYTES, read_bytes
from triton_ensemble.facts.terminal import escape_line

# A private repository without a token is a line, not a question. Large files are not read.
UNATTENDED = {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
TAG = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:[-.]?(a|b|rc)\.?(\d+))?(?:\+team\.(\d+))?")
# What Copier makes of the abbreviations in _src_path.
SOURCES = {"gh:": "https://github.com/", "gl:": "https://gitlab.com/", "git+": ""}
# Runs with the toolkit of a project, in its folder, whose own modules it does not import.
LIST_EDITED = """
import json, pathlib, sys
sys.path = sys.argv[1:]
from triton_ensemble.change.project import ChangedProject, list_edited
from triton_ensemble.change.state import read_state
print(json.dumps([*list_edited(ChangedProject(read_state(pathlib.Path())))]))
"""
GREEN = "run list --workflow=ci.yml --event=push --status=success --limit=1 --json=createdAt --jq=.[].createdAt"
NO_REPOSITORY = Path("/")  # the settings of one in the current folder could name programs
FINAL = "~"  # sorts behind a, b and rc
Version = tuple[int, int, int, str, int, int]
COLUMNS = ["project", "version", "newest", "behind", "pipeline", "edited", "faults", "green"]


@dataclass
class Row:
    """The known facts of a project. None or an empty text stands for an unknown fact."""

    project: str
    version: str = ""
    newest: str = ""
    behind: int | None = None
    pipeline: str = ""
    edited: list[str] | None = None
    faults: list[str] = field(default_factory=list)
    green: str = ""
    problem: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the projects and the format."""
    what = "a folder, a git URL, or a file with a folder or URL on each line"
    parser.add_argument("projects", nargs="+", metavar="LIST", help=what)
    what = "table for people, json for programs; default: %(default)s"
    parser.add_argument("--format", choices=("table", "json"), default="table", help=what)


def run(arguments: argparse.Namespace) -> int:
    """Print a row for each project. Print a line for each that could not be read, and return 1 then."""
    with tempfile.TemporaryDirectory(prefix="fleet-", ignore_cleanup_errors=True) as work:
        rows = [_row(name, Path(work)) for name in _names(arguments.projects)]
    if arguments.format == "json":
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        print(*_table([row for row in rows if not row.problem]), sep="\n")
    problems = (escape_line(f"{row.project}: {row.problem}") for row in rows if row.problem)
    sys.stderr.writelines(f"{line}\n" for line in problems)
    return int(any(row.problem for row in rows))


def _names(words: Iterable[str]) -> Iterator[str]:
    """Yield folders and URLs. A folder in a file is relative to the file."""
    for word in words:
        if not Path(word).is_file():
            yield word
            continue
        for line in Path(word).read_text(errors="replace").splitlines():
            if name := re.sub(r"(^|\s)#.*", "", line).strip():
                folder = Path(word).parent / name
                yield str(folder) if folder.is_dir() else name


def _row(name: str, work: Path) -> Row:
    with tempfile.TemporaryDirectory(dir=work) as clone:
        try:
            return _read(name, _folder(name, Path(clone, "project")), work)
        except Exception as error:  # the others are still read
            return Row(name, problem=" ".join(str(error).split()))


def _folder(name: str, clone: Path) -> Path:
    """Return the folder of a project, which is cloned unless it is here."""
    root = Path(name).expanduser()
    if not root.is_dir() or (root / "HEAD").is_file():  # a bare repository
        source = str(root.resolve()) if root.is_dir() else name
        command = ("clone", "--quiet", "--depth=1", "--", source, str(clone))
        git_aside(clone.parent, *command, more=UNATTENDED)
        root = clone
    if not (root / FILE).is_file():
        raise ChangeError(f"has no {FILE}; name a project that was made from the template")
    return root


def _read(name: str, root: Path, work: Path) -> Row:
    state = read_state(root)
    pipeline = "changed" if state.is_changed else "applied"
    row = Row(name, str(state.made.get("_commit", "")), pipeline=pipeline)
    row.newest, row.behind = _find_newest(root, str(state.made.get("_src_path")), row.version)
    row.edited, row.green = _list_edited(root, work), _output(root, "gh", *GREEN.split())[:10]
    found = RULES["known-fault"].findings(Repository.read(root / "model_repository"))
    row.faults = [each.words for each in found]
    return row


def _find_newest(root: Path, source: str, version: str) -> tuple[str, int | None]:
    """Return the template's newest tag, and how many tags are newer than a version.

    Pre-releases count only for a pre-release.
    """
    for short, long in SOURCES.items():
        source = re.sub(f"^{re.escape(short)}", long, source)
    local = root / Path(source).expanduser()
    try:
        tags = _tags(str(local.resolve()) if local.exists() else source)
    except ChangeError:  # the template can't be reached from here
        return "", None
    mine = _version(TAG.match(version))
    known = {v: tag for tag, v in tags.items() if v[3] == FINAL or (mine and mine[3] != FINAL)}
    newer = sum(each > mine for each in known) if mine else None
    return known[max(known)] if known else "", newer


@cache
def _tags(source: str) -> dict[str, Version]:
    command = ("ls-remote", "--tags", "--refs", "--", source)
    lines = git_aside(NO_REPOSITORY, *command, more=UNATTENDED).decode(errors="replace").split()
    names = [line.removeprefix("refs/tags/") for line in lines[1::2]]
    return {name: found for name in names if (found := _version(TAG.fullmatch(name)))}


def _version(found: re.Match[str] | None) -> Version | None:
    """Return what sorts as Copier sorts versions: 1.0.0rc1, 1.0.0, 1.0.0+team.1."""
    if found:
        major, minor, patch, stage, number, team = found.groups()
        return int(major), int(minor), int(patch), stage or FINAL, int(number or 0), int(team or 0)
    return None


def _list_edited(root: Path, work: Path) -> list[str] | None:
    """Return the edited managed files, as the project's own version of the template renders them."""
    for wheel in root.glob("vendor/triton_ensemble-*.whl"):
        toolkit = work / hashlib.sha256(read_bytes(wheel, DATA_BYTES)).hexdigest()
        with suppress(ValueError, zipfile.BadZipFile):
            if not toolkit.exists():
                zipfile.ZipFile(wheel).extractall(toolkit)
            printed = _output(
                root, sys.executable, "-I", "-c", LIST_EDITED, str(toolkit), *sys.path
            )
            return list(map(str, json.loads(printed)))
    return None


def _output(root: Path, *command: str) -> str:
    """Return what a command prints, or an empty text if the program can't be run."""
    with suppress(OSError):
        return subprocess.run(command, cwd=root, capture_output=True).stdout.decode()
    return ""


def _table(rows: list[Row]) -> Iterator[str]:
    lines = [COLUMNS, *([_cell(getattr(row, name)) for name in COLUMNS] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(map(str.ljust, line, widths)).rstrip()
    for fault in dict.fromkeys(fault for row in rows for fault in row.faults):
        yield f"{', '.join(row.project for row in rows if fault in row.faults)}: {fault}"


def _cell(value: str | int | list[str] | None) -> str:
    shown = len(value) if isinstance(value, list) else value
    return "?" if shown in (None, "") else escape_line(str(shown))
