"""Builds the wheel of src/ into template/vendor/, and writes its path and hash beside it.

The same sources give the same bytes: hatchling sets all dates to one day and sorts the files. Where
only the archive differs, as another zlib compresses otherwise, a wheel with the same RECORD is kept.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
VENDOR = ROOT / "template" / "vendor"
EXTRAS = "answers,progress"  # `make lock` takes what they require into the project's lock
HEAD = "# Managed by triton-ensemble-template: the toolkit and its hash; `make setup` installs it, no package index is asked.\n"


def build(folder: Path) -> Path:
    """Return a wheel of the working tree, built in `folder`."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*command, str(folder)], cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def record(wheel: Path) -> str:
    """Return the wheel's list of files, each with its hash."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
        return archive.read(name).decode()


def main() -> None:
    VENDOR.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        target = VENDOR / wheel.name
        if not target.exists() or record(target) != record(wheel):
            for old in VENDOR.glob("*.whl"):
                old.unlink()
            shutil.copyfile(wheel, target)
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    line = f"./vendor/{target.name}[{EXTRAS}] --hash=sha256:{digest}\n"
    (VENDOR / "requirements.txt").write_text(HEAD + line)


if __name__ == "__main__":
    main()
