"""Finishes a project's environment after an install, as the last step of `make setup`.

    python -m triton_ensemble.environment.setup src

puts the project's client on the path and names what requirements.lock lacks.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import sysconfig
from collections.abc import Collection, Iterable
from pathlib import Path

from triton_ensemble.terminal import escape_streams

VENDORED = Path("vendor/requirements.txt")
EXTRA = re.compile(r"""extra == ["']([\w-]+)""")


def main() -> int:
    """Finish the environment that runs this; 1 if it lacks what all commands of the toolkit need."""
    site_packages = Path(sysconfig.get_path("purelib"))
    site_packages.joinpath("project.pth").write_text(f"{Path(sys.argv[1]).resolve()}\n")
    requires = importlib.metadata.requires("triton-ensemble") or []
    # Packages of the extras that vendor/requirements.txt names are for some commands.
    extras = re.findall(r"[\w-]+(?=[],])", VENDORED.read_text() if VENDORED.exists() else "")
    if missing := list_lacking(requires, extras):
        names = ", ".join(missing)
        print(f"requirements.lock: lacks {names}, which the toolkit needs; run: make lock")
    return int(bool(missing and list_lacking(requires, ())))


def list_lacking(requires: Iterable[str], extras: Collection[str]) -> list[str]:
    """Return the requirements of a package with some extras that this environment does not meet."""
    return [each.partition(";")[0].strip() for each in requires if _is_lacking(each, extras)]


def _is_lacking(requirement: str, extras: Collection[str]) -> bool:
    name, extra = re.split(r"[^\w.-]", requirement)[0], EXTRA.search(requirement)
    if extra and extra[1] not in extras:
        return False
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = ""
    try:
        from packaging.requirements import Requirement
    except ModuleNotFoundError:  # it is lacking too
        return not version
    wanted = Requirement(requirement)
    if wanted.marker and not wanted.marker.evaluate({"extra": extra[1] if extra else ""}):
        return False
    return not version or not wanted.specifier.contains(version, prereleases=True)


if __name__ == "__main__":
    escape_streams()
    sys.exit(main())
