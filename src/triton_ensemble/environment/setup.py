"""Make the project's environment: the packages of requirements.lock and the toolkit.

Every command does so first, if the lock or the toolkit changed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import sys
import sysconfig
from collections.abc import Collection, Iterable
from pathlib import Path

from triton_ensemble.environment.needs import SOURCES
from triton_ensemble.facts.terminal import escape_streams

VENDORED = Path("vendor/requirements.txt")
EXTRA = re.compile(r"""extra == ["']([\w-]+)""")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare packages of other commands."""
    what = f"packages to install besides: {', '.join(SOURCES)}"
    parser.add_argument("parts", nargs="*", type=_check_part, metavar="PACKAGES", help=what)


def run(arguments: argparse.Namespace) -> int:
    """Do nothing more: the environment is made before any command runs in it."""
    return 0


def _check_part(name: str) -> str:
    if name not in SOURCES:
        raise argparse.ArgumentTypeError(f"{name}: write one of {', '.join(SOURCES)}")
    return name


def main() -> int:
    """Put the client on the path and name what the lock lacks.

    Return 1 if all commands of the toolkit need what it lacks.
    """
    site_packages = Path(sysconfig.get_path("purelib"))
    site_packages.joinpath("project.pth").write_text(f"{Path('src').resolve()}\n")
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
