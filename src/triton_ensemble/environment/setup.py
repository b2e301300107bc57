"""Finishes a project's environment after an install, as the last step of `make setup`.

    python -m triton_ensemble.environment.setup src

puts the project's client on the path and names what requirements.lock lacks.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from triton_ensemble.terminal import escape_streams

VENDORED = Path("vendor/requirements.txt")


def main() -> int:
    """Finish the environment that runs this; 1 if it lacks what all commands of the toolkit need."""
    site_packages = Path(sysconfig.get_path("purelib"))
    site_packages.joinpath("project.pth").write_text(f"{Path(sys.argv[1]).resolve()}\n")
    missing = dict(_find_missing_requirements())
    if missing:
        names = ", ".join(missing)
        print(f"requirements.lock: lacks {names}, which the toolkit needs; run: make lock")
    return int(any(missing.values()))


def _find_missing_requirements() -> Iterator[tuple[str, bool]]:
    """Yield packages that are not installed, and whether all commands need them.

    Packages of the extras that vendor/requirements.txt names are for some commands.
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


if __name__ == "__main__":
    escape_streams()
    sys.exit(main())
