"""Finishes a project's environment after an install, as the last step of `make setup`.

    python -m triton_ensemble.update.setup src

puts the project's client on the path, names what requirements.lock lacks, and after the first update
from a version that kept its tools in the project says what became of edits of them.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import triton_ensemble

# With this file in a commit, the update after it was run by a tool that says nothing of removed edits.
SILENT_UPDATER = "./tools/update.py"
VENDORED = Path("vendor/requirements.txt")


def main() -> int:
    """Finish the environment that runs this; 1 if it lacks what all commands of the toolkit need."""
    site_packages = Path(sysconfig.get_path("purelib"))
    site_packages.joinpath("project.pth").write_text(f"{Path(sys.argv[1]).resolve()}\n")
    missing = dict(_missing_requirements())
    if missing:
        names = ", ".join(missing)
        print(f"requirements.lock: lacks {names}, which the toolkit needs; run: make lock")
    _report_removed_edits()
    return int(any(missing.values()))


def _missing_requirements() -> Iterator[tuple[str, bool]]:
    """Yield packages that are not installed, and whether all commands need them.

    Those of the extras that vendor/requirements.txt names are for some commands.
    """
    extras = re.findall(r"[\w-]+(?=[],])", VENDORED.read_text() if VENDORED.exists() else "")
    for requirement in importlib.metadata.requires("triton-ensemble") or []:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        extra = re.search(r"""extra == ["']([\w-]+)""", requirement)
        try:
            if extra is None or extra[1] in extras:
                importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield name, extra is None


def _report_removed_edits() -> None:
    """Report those of the first update, before it is committed or after."""
    updater = Path(f"{sys.prefix}-update", "bin", "python")  # it has Copier
    before = next((commit for commit in ("HEAD", "HEAD^") if _has_silent_updater(commit)), "")
    if before and updater.exists():
        path = Path(triton_ensemble.__file__).parents[1]
        environment = os.environ | {"PYTHONPATH": str(path)}
        command = [str(updater), "-m", "triton_ensemble.update.removed", before]
        subprocess.run(command, env=environment, check=False)


def _has_silent_updater(commit: str) -> bool:
    command = ["git", "cat-file", "-e", f"{commit}:{SILENT_UPDATER}"]
    return subprocess.run(command, capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
