"""Compare what two versions of `check` and `adopt` print for a list of repositories, as ruff's ecosystem check does.

    python scripts/ecosystem.py LIST --base COMMIT [--head COMMIT]

LIST has a folder or a git address in each line. A folder is relative to the list, and an address is cloned once.
Exit status: 0 if both versions print the same, 1 if anything differs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

ROOT = Path(__file__).parent.parent
CACHE = ROOT / "build" / "ecosystem"
COMMANDS = ("check", "adopt")
SECONDS = 120  # for a command; the largest public repositories take five


def unpack(commit: str, folder: Path) -> Path:
    """Return a folder with the files of a commit."""
    archive = folder / "version.tar"
    command = ["git", "archive", f"--output={archive}", commit]
    if subprocess.run(command, cwd=ROOT, capture_output=True).returncode:
        sys.exit(f"{commit}: is not a commit of this repository; write one that `git log` shows")
    shutil.unpack_archive(archive, folder)
    return folder


def fetch(address: str, beside: Path) -> Path:
    """Return the folder of a line of the list, with a clone of a git address."""
    if not re.match(r"\w+://|git@", address):
        return (beside / address).resolve()
    folder = CACHE / re.sub(r"\W+", "-", address)
    if not folder.exists():
        command = ["git", "clone", "--quiet", "--depth=1", "--", address, str(folder)]
        if subprocess.run(command, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"}).returncode:
            sys.exit(f"{address}: can't be cloned, as git says above; correct the list")
    return folder


def find_repositories(list_file: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and the folder of each model repository in what a list names.

    Raises:
        SystemExit: if a line names nothing that has a config.pbtxt.
    """
    for line in list_file.read_text().splitlines():
        if not (address := line.partition("#")[0].strip()):
            continue
        folder = fetch(address, list_file.parent)
        found = {path.parent.parent for path in folder.rglob("config.pbtxt")}
        if not found:
            sys.exit(f"{list_file}: {address} has no config.pbtxt; name a model repository")
        for path in sorted(found):
            yield f"{address}/{path.relative_to(folder)}".removesuffix("/."), path


def read_verdict(version: Path, command: str, repository: Path) -> list[str]:
    """Return what a version's command prints for a repository, and its exit status."""
    with tempfile.TemporaryDirectory() as folder:  # outside of any project
        try:
            done = subprocess.run(
                [sys.executable, "-m", "triton_ensemble", command, str(repository)],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(version / "src")},
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return [f"no result in {SECONDS} s"]
    text = f"{done.stdout}{done.stderr}exit status {done.returncode}"
    return text.replace(f"{repository}/", "").splitlines()


def compare(base: Path, head: Path, list_file: Path) -> Iterator[str]:
    """Yield the lines of a unified diff for each command and repository on which two versions differ."""
    for name, repository in find_repositories(list_file):
        for command in COMMANDS:
            old, new = (read_verdict(version, command, repository) for version in (base, head))
            title = f"{command} {name}"
            yield from unified_diff(old, new, f"base {title}", f"head {title}", lineterm="", n=1)


def main() -> int:
    """Print the differences. Return 1 if there are any."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("list", type=Path, metavar="LIST")
    parser.add_argument("--base", required=True, metavar="COMMIT")
    parser.add_argument("--head", metavar="COMMIT", help="default: the working tree")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new:
        base = unpack(options.base, Path(old))
        head = unpack(options.head, Path(new)) if options.head else ROOT
        lines = [*compare(base, head, options.list)]
    print(*lines, sep="\n", end="\n" * bool(lines))
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
