"""Installs packages into the image: `python3 packages.py requirements.lock 'pillow>=10.1'`, or all of a lock.

pip checks hashes only of a list that names each package with its version, and the lock names more
than an image needs: so pip says first what it would take, then installs that by the lock's entries.
TORCH_INDEX in the environment is one more index, which the lock's PyTorch is from.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

CONFIG, CA_BUNDLE = Path("/run/secrets/pip.conf"), Path("/run/secrets/ca.pem")


def pip(*arguments: str) -> str:
    """Return what pip prints, or exit with its status if it fails, because it has said why."""
    secrets = {"PIP_CONFIG_FILE": CONFIG, "PIP_CERT": CA_BUNDLE}
    given = {name: str(path) for name, path in secrets.items() if path.exists()}
    always = {"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    index = os.environ.get("TORCH_INDEX")
    more = ["--extra-index-url", index] if index else []
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    command += more
    run = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | always | given
    )
    if run.returncode:
        sys.exit(run.returncode)
    return run.stdout


def normalize_name(name: str) -> str:
    """Return a package's name as the index compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries_of(lock: str) -> dict[str, list[str]]:
    """Return the lock's entries by package. A package that differs by Python version has several."""
    entries: dict[str, list[str]] = {}
    for entry in lock.replace("\\\n", " ").splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)(?:\[.*?\])?(?:==| @ )", entry):
            entries.setdefault(normalize_name(match[1]), []).append(entry)
    return entries


def main(lock: str, requirements: Sequence[str]) -> None:
    """Install what the requirements need on this Python, at the lock's versions and hashes.

    Without any requirements, install all of the lock.
    """
    if not requirements:
        pip("install", "--no-deps", "--require-hashes", "--requirement", lock)
        return
    entries = entries_of(Path(lock).read_text())
    with tempfile.TemporaryDirectory() as folder:
        versions, chosen = Path(folder, "versions.txt"), Path(folder, "chosen.txt")
        pins = [entry.split(" --hash")[0] for of in entries.values() for entry in of]
        versions.write_text("\n".join(pins))
        plan = ("--dry-run", "--report", "-", "--constraint", str(versions))
        report = json.loads(pip("install", *plan, *map(os.path.expandvars, requirements)))
        names = [normalize_name(item["metadata"]["name"]) for item in report["install"]]
        if unknown := [name for name in names if name not in entries]:
            sys.exit(f"{', '.join(unknown)}: not in requirements.lock; run `make lock`")
        if names:
            chosen.write_text("\n".join(entry for name in names for entry in entries[name]))
            pip("install", "--no-deps", "--require-hashes", "--requirement", str(chosen))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
