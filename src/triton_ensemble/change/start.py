"""The first half of an update, in the toolkit that the project has: fetch a version, and start its toolkit.

The new version's toolkit does the rest. It gets a temporary folder with a clone of the template, itself unpacked, and
a file with the commits of both versions.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, NoReturn

from triton_ensemble.answers import Answers
from triton_ensemble.change.git import UpdateError, last_line
from triton_ensemble.change.template import CURRENT, Template
from triton_ensemble.environment.setup import list_lacking

CLONE, TOOLKIT, PACKAGES, VERSIONS = "template.git", "toolkit", "packages", "versions.json"
EXTRA = "answers"  # what rendering needs besides


class Versions(NamedTuple):
    """The commits of an update, and how .copier-answers.yml names the new one."""

    old: str
    new: str
    name: str


def start(root: Path, made: Answers, version: str, prereleases: bool, words: Sequence[str]) -> int:
    """Fetch a version, and let its toolkit update the project in `root`. Where processes can, it replaces this one."""
    work = Path(tempfile.mkdtemp(prefix="update-")).resolve()
    try:
        path = _prepare(root, made, version, prereleases, work)
        command = [
            sys.executable,
            "-m",
            "triton_ensemble",
            "update",
            *words,
            "--prepared",
            str(work),
        ]
        environment = os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
        if os.name == "nt":
            return subprocess.run(command, env=environment).returncode
        _replace(command, environment)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _replace(command: list[str], environment: dict[str, str]) -> NoReturn:
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)


def _prepare(root: Path, made: Answers, version: str, prereleases: bool, work: Path) -> str:
    """Fill the folder; return the module path of the new toolkit."""
    name = str(made.get("_commit"))
    template = Template.clone(work / CLONE, made, root)
    old = template.find_commit(name)
    wanted = name if version == CURRENT else version or template.find_newest(prereleases)
    new = template.find_commit(wanted)
    template.refuse_downgrade(name, old, new)
    versions = Versions(old, new, template.describe(new))
    (work / VERSIONS).write_text(json.dumps(versions._asdict()))
    unpack(template, template.take(new, work / "new"), work / TOOLKIT)
    paths = [work / TOOLKIT]
    [metadata] = (work / TOOLKIT).glob("*.dist-info")
    requires = importlib.metadata.Distribution.at(metadata).requires or []
    if lacking := list_lacking(requires, [EXTRA]):
        install(lacking, template.read(new, "locks/run.txt"), work / PACKAGES)
        paths.insert(0, work / PACKAGES)
    return os.pathsep.join([*map(str, paths), *filter(None, [os.environ.get("PYTHONPATH")])])


def unpack(template: Template, wheel: Path, folder: Path) -> None:
    """Unpack a toolkit, whose templates need paths; UpdateError if it is not the one whose hash stands beside it."""
    content = wheel.read_bytes()
    hashes = wheel.with_name("requirements.txt")
    if hashlib.sha256(content).hexdigest() not in hashes.read_text(errors="replace"):
        raise template.error(f"{wheel.name} does not have the hash in {hashes.name} beside it")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            archive.extractall(folder)
    except (zipfile.BadZipFile, ValueError) as error:
        raise template.error(f"{wheel.name} is not a wheel: {error}") from error


def install(packages: Sequence[str], lock: str, folder: Path) -> None:
    """Install packages into a folder, by the hashes of a lock if it has them all; UpdateError if that fails."""
    names = [re.split(r"[^\w.-]", each)[0] for each in packages]
    entries = [re.findall(rf"^{n}==.*\n(?: +--hash.*\n)+", lock, re.MULTILINE) for n in names]
    is_locked = all(entries)
    lines = list(chain(*entries)) if is_locked else [f"{package}\n" for package in packages]
    folder.mkdir()
    wanted = folder / "requirements.txt"
    wanted.write_text("".join(lines))
    uv = os.environ.get("UV")
    command = (
        [uv, "pip", "install", "--python", sys.executable]
        if uv
        else [sys.executable, "-m", "pip", "install"]
    )
    options = ["--quiet", *["--require-hashes", "--no-deps"] * is_locked, "--target", str(folder)]
    said = subprocess.run([*command, *options, "--requirement", str(wanted)], capture_output=True)
    if said.returncode:
        line = last_line(said.stderr.decode(errors="replace"))
        what = f"the new version needs {', '.join(packages)}, which this environment lacks"
        raise UpdateError(f"update: {what}: {line}; the project is as it was")
