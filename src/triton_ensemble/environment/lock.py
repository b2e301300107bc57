"""Renew the project's locks: versions and hashes of what it declares, and of all that this needs.

With --lacking, after an update, and with --set-up, before an install, only where requirements.lock
lacks what pipeline.yml or a backend asks for, and not before its owner has chosen between 5 GB and
less. UV in the environment is uv, which keeps the versions that still fit. Without it, pip installs
uv. `torch_index` of pipeline.yml, or the variable TORCH_INDEX, is the address of a package index that
PyTorch alone is taken from, for wheels without CUDA. The locks do not name it: an install gets it besides.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict

from triton_ensemble.adapter.typed import read_json
from triton_ensemble.environment.needs import read_torch_index
from triton_ensemble.facts.terminal import escape_streams

LOCK, DEV_LOCK = Path("requirements.lock"), Path("requirements-dev.lock")
FACTS, PYPROJECT = Path("vendor", "project.json"), Path("pyproject.toml")
OPTIONS = ("--universal", "--python-version", "3.10", "--generate-hashes", "--no-emit-index-url")
TORCH = ("torch", "torchvision", "torchaudio")  # what PyTorch's own indexes have besides its needs
CHOICE = "for a CPU, name the index of its CPU wheels as `torch_index` in pipeline.yml, as docs/environment.md, Packages, says"
HEAVY = "an environment of over 5 GB"


class LockError(RuntimeError):
    """Raised if the locks can't be renewed, with the place, what is wrong and what to do."""


class Facts(TypedDict):
    """The part of project.json that locks depend on."""

    packages: dict[str, list[str]]  # by task
    gpu_count: int


def list_lacking(lock: str, requirements: Iterable[str]) -> list[str]:
    """Return the requirements for which a lock lacks a package.

    A package with another version does not count if `packaging` is installed, as beside Copier.
    """
    found = re.findall(r"^([\w.-]+)(?:\[.*?\])?(?:==([^\s;]+)| @ )", lock, re.MULTILINE)
    versions: dict[str, list[str]] = {}
    for name, version in found:
        versions.setdefault(_normalize(name), []).append(version)
    return [each for each in requirements if not _fits(each, versions)]


def read_facts(path: Path) -> Facts:
    """Return the facts of a project, or raise LockError if they are damaged."""
    try:
        return read_json(path, Facts)
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", error)
        raise LockError(f"{path}: {what}; restore it: git checkout {FACTS}") from None


def list_missing(lock: Path, facts: Facts) -> list[str]:
    """Return a project's declared requirements that its lock lacks.

    The list is empty if the project's owner removed the lock.
    """
    declared = dict.fromkeys(each for task in facts["packages"].values() for each in task)
    return list_lacking(lock.read_text(encoding="utf-8"), declared) if lock.exists() else []


def _fits(requirement: str, versions: dict[str, list[str]]) -> bool:
    locked = versions.get(_normalize(re.split(r"[^\w.-]", requirement)[0]), [])
    try:
        from packaging.requirements import Requirement
    except ImportError:  # set-up asks before it has installed anything
        return bool(locked)
    specifier = Requirement(requirement).specifier
    # Without a version it is locked by its address.
    return any(not each or specifier.contains(each, prereleases=True) for each in locked)


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def renew() -> None:
    """Write both locks, or raise LockError if pip can't fetch uv, or uv finds no versions."""
    uv = os.environ.get("UV")
    if not uv:
        if not find_spec("pip"):  # an environment that uv has made does not have it
            _run("ensurepip", sys.executable, "-m", "ensurepip", "--default-pip")
        _run("pip", sys.executable, "-m", "pip", "--quiet", "install", "uv")
    command = [uv] if uv else [sys.executable, "-m", "uv"]
    facts = read_facts(FACTS)
    extras = [word for task in facts["packages"] for word in ("--extra", task)]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, PYPROJECT.name)
        own = PYPROJECT.read_text(encoding="utf-8")
        source.write_text(own + _choose_torch_index(own), encoding="utf-8")
        toolkit = ("--no-emit-package", "triton-ensemble", "vendor/requirements.txt")
        _compile(command, source, LOCK, *extras, *toolkit)
        _compile(command, source, DEV_LOCK, "--extra", "dev", "--constraints", str(LOCK))
    print(*_advice(facts), sep="\n", end="", flush=True)


def _compile(uv: Sequence[str], source: Path, lock: Path, *options: str) -> None:
    said = ("--no-annotate", "--custom-compile-command", "make lock")
    command = (*uv, "pip", "compile", "--quiet", "--python", sys.executable, *OPTIONS, *said)
    _run("uv", *command, *options, "-o", str(lock), str(source))


def _run(name: str, *command: str) -> None:
    if subprocess.run(command, stdout=sys.stderr).returncode:
        raise LockError(f"{LOCK}: is not renewed, as {name} says above; then run: make lock")


def _choose_torch_index(pyproject: str) -> str:
    """Return the tables that tell uv of the index, and that it is for no other package.

    The text is empty if no index is named or the owner has such tables.
    """
    url = read_torch_index(os.environ)
    if not url or "[tool.uv.sources]" in pyproject:
        return ""
    index = f'\n[[tool.uv.index]]\nname = "torch"\nurl = {json.dumps(url)}\nexplicit = true\n'
    sources = (f'{name} = {{ index = "torch" }}\n' for name in TORCH)
    return "".join([index, "\n[tool.uv.sources]\n", *sources])


def _advice(facts: Facts) -> list[str]:
    """Return a line if a project without GPUs has packages for them in its lock."""
    count = len({*re.findall(r"^(nvidia-(?!pytriton)[\w-]+)==", LOCK.read_text(), re.MULTILINE)})
    if facts["gpu_count"] or not count:
        return []
    if read_torch_index(os.environ):
        how = "they are needed by a package that takes torch from elsewhere; add torch to the requirements of its step"
    else:
        how = f"{CHOICE}, then run: make lock"
    return [f"{LOCK}: has {count} NVIDIA packages, for GPUs: {HEAVY}; {how}", ""]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare when to renew the locks."""
    when = parser.add_mutually_exclusive_group()
    lacking = "only if requirements.lock lacks a package; exit status 0 even if that fails"
    when.add_argument("--lacking", action="store_true", help=lacking)
    set_up = "only if requirements.lock lacks a package, as before an install"
    when.add_argument("--set-up", action="store_true", help=set_up)


def run(arguments: argparse.Namespace) -> int:
    """Renew the locks. Print a line and return 1 if that fails."""
    chosen = ("lacking", "set_up")
    return main([f"--{name}" for name in chosen if getattr(arguments, name)])


def main(arguments: Sequence[str]) -> int:
    """Renew the locks. Print a line and return 1 if that fails, or if the owner has to choose first.

    After an update, with --lacking, return 0 then: the update is complete.
    """
    try:
        if not arguments or _is_needed():
            renew()
    except LockError as error:
        print(error, file=sys.stderr)
        return int("--lacking" not in arguments)
    return 0


def _is_needed() -> bool:
    """Print what the lock lacks, and return whether it lacks anything.

    Raise LockError if it is not yet chosen whether packages for GPUs are wanted.
    """
    if not FACTS.exists():  # a sparse checkout leaves it out
        return False
    facts = read_facts(FACTS)
    lacked = list_missing(LOCK, facts)
    if not lacked:
        return False
    lacks = f"{LOCK}: lacks {', '.join(lacked)}"
    open_choice = not facts["gpu_count"] and not read_torch_index(os.environ)
    if open_choice and any(re.match(rf"({'|'.join(TORCH)})\b", m) for m in lacked):
        raise LockError(f"{lacks}; {CHOICE}; to take those for GPUs, {HEAVY}, run: make lock")
    print(f"{lacks}; renewing it, as `make lock` does", flush=True)
    return True


if __name__ == "__main__":
    escape_streams()
    sys.exit(main(sys.argv[1:]))
