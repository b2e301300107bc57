"""The first half of an update, in the toolkit that the project has: fetch a version, and start its toolkit.

The new version's toolkit does the rest. It gets a temporary folder with a clone of the template and itself unpacked,
the commit of the project's version, and the name of the new one.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from triton_ensemble.answers import Answers
from triton_ensemble.change import ChangeError
from triton_ensemble.change.git import last_line
from triton_ensemble.change.template import CURRENT, Template
from triton_ensemble.environment.setup import list_lacking
from triton_ensemble.signals import hold_signals

CLONE, TOOLKIT = "template.git", "toolkit"
PACKAGES, LIST = "packages", "packages.txt"
PIP = [sys.executable, "-m", "pip", "install"]
EXTRA = "answers"  # what rendering needs besides


def start(root: Path, made: Answers, version: str, prereleases: bool, words: Sequence[str]) -> int:
    """Fetch a version, and let its toolkit update the project in `root`. Where processes can, it replaces this one."""
    work = Path(tempfile.mkdtemp(prefix="update-")).resolve()
    try:
        template = Template.clone(work / CLONE, made, root)
        old, new = _choose(template, str(made.get("_commit")), version, prereleases)
        paths = [*_unpack_new(template, new, work), os.environ.get("PYTHONPATH")]
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONSAFEPATH": "1"}
        prepared = ["--prepared", str(work), old, template.describe(new)]
        command = [sys.executable, "-m", "triton_ensemble", "update", *prepared, *words]
        if os.name == "nt":
            return subprocess.run(command, env=os.environ | environment).returncode
        _replace(command, os.environ | environment)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _replace(command: list[str], environment: dict[str, str]) -> NoReturn:
    sys.stdout.flush()
    hold_signals(True)  # the next toolkit lets them come when it can handle them
    os.execve(sys.executable, command, environment)


def _choose(template: Template, made: str, version: str, prereleases: bool) -> tuple[str, str]:
    """Return the commits of the project's version and of the new one."""
    old = template.find_commit(made)
    wanted = made if version == CURRENT else version or template.find_newest(prereleases)
    new = template.find_commit(wanted)
    template.refuse_downgrade(made, old, new)
    return old, new


def _unpack_new(template: Template, new: str, work: Path) -> list[str]:
    """Unpack the new toolkit, with packages that it needs and that are not here; return its module path."""
    unpack(template, template.take(new, work / "new"), work / TOOLKIT)
    [metadata] = (work / TOOLKIT).glob("*.dist-info")
    requires = importlib.metadata.Distribution.at(metadata).requires or []
    lacking = list_lacking(requires, [EXTRA])
    if lacking:
        _install(lacking, template.read(new, "locks/run.txt"), work)
    return [str(work / PACKAGES)] * bool(lacking) + [str(work / TOOLKIT)]


def unpack(template: Template, wheel: Path, folder: Path) -> None:
    """Unpack a toolkit, whose templates need paths; ChangeError if it is not the one whose hash stands beside it."""
    content, hashes = wheel.read_bytes(), wheel.with_name("requirements.txt")
    if hashlib.sha256(content).hexdigest() not in hashes.read_text(errors="replace"):
        raise template.error(f"{wheel.name} does not have the hash in {hashes.name} beside it")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            archive.extractall(folder)
    except (zipfile.BadZipFile, ValueError) as error:
        raise template.error(f"{wheel.name} is not a wheel: {error}") from error


def _install(packages: Sequence[str], lock: str, work: Path) -> None:
    """Install packages into a folder, by the hashes of a lock if it has them all; ChangeError if that fails."""
    names = [re.split(r"[^\w.-]", each)[0] for each in packages]
    found = [re.search(rf"^{n}==.*\n(?: +--hash.*\n)+", lock, re.MULTILINE) for n in names]
    is_locked = None not in found
    lines = [each[0] for each in found if each] if is_locked else [f"{each}\n" for each in packages]
    (work / LIST).write_text("".join(lines))
    uv = os.environ.get("UV")
    command = [uv, "pip", "install", "--python", sys.executable] if uv else PIP
    options = ["--quiet", *["--require-hashes", "--no-deps"] * is_locked]
    places = ["--target", str(work / PACKAGES), "--requirement", str(work / LIST)]
    said = subprocess.run([*command, *options, *places], capture_output=True)
    if said.returncode:
        what = f"the new version needs {', '.join(packages)}, which this environment lacks"
        raise ChangeError(f"{what}: {last_line(said.stderr)}; the project is as it was")


def list_lacking_packages(work: Path) -> Iterator[str]:
    """Yield a line if the project's environment lacks packages of the new toolkit."""
    if (file := work / LIST).is_file():
        lines = file.read_text().splitlines()
        names = ", ".join(line.split()[0] for line in lines if not line.startswith(" "))
        yield f"requirements.lock: lacks {names}, which the toolkit needs; run: make lock"
