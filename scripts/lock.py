"""Locks the packages of this repository and of generated projects: one resolution for all of them, so that any choice fits together.

Writes requirements.lock and hooks/locks/*.txt with `uv`: versions and hashes, no index.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "hooks" / "catalog" / "locks"
# The local Triton needs numpy<2, which has no wheel for Python 3.13.
PROJECT = "[tool.uv]\nenvironments = [\"python_version < '3.13' and platform_python_implementation == 'CPython'\"]\n"
BASE = [
    "numpy<2",
    "tritonclient[grpc,http]",
    "nvidia-pytriton==0.7.0 ; sys_platform == 'linux'",  # it has no other wheel
    "setuptools",
    "mypy",
    "pytest",
    "pytest-docker",
    "pyyaml",
    "ruff",
    "types-pyyaml",
]
PACKAGES = ["onnx", "onnxruntime", "openvino", "pillow", "scikit-learn", "skl2onnx"]
# What only `make bench` installs. Resolved without nvidia-pytriton: with it and versions given, uv 0.13 finds no solution.
BENCH = ["matplotlib", "numpy<2"]
DEVELOPMENT = [
    "check-jsonschema",
    "copier",
    "hypothesis",
    "pexpect",
    "pre-commit",
    "protobuf",
    "pytest-xdist",
]


def compiled(requirements: list[str], versions: Path | None) -> str:
    """The lock of some packages and all that they need, with the versions of another lock."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text(PROJECT)
        Path(folder, "packages.in").write_text("\n".join(requirements))
        options = [
            "--universal",
            "--python-version=3.10",
            "--generate-hashes",
            "--no-emit-index-url",
        ]
        options += [
            "--no-header",
            "--no-annotate",
            *(["--constraints", str(versions)] if versions else []),
        ]
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", *options, "packages.in"]
        return subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder
        ).stdout


def entries(lock: str) -> list[str]:
    """A lock's entries, each with its lines of hashes."""
    return lock.replace("\n    --hash", "\0    --hash").splitlines()


def main() -> None:
    everything = ROOT / "requirements.lock"
    lock = compiled(BASE + PACKAGES + DEVELOPMENT, None)
    everything.write_text(lock)
    base = entries(compiled(BASE, everything))
    parts = {"base": base}
    for package in PACKAGES:
        parts[package] = [
            entry for entry in entries(compiled([package, *BASE], everything)) if entry not in base
        ]
    parts["matplotlib"] = [
        entry for entry in entries(compiled(BENCH, everything)) if entry not in base
    ]
    LOCKS.mkdir(exist_ok=True)
    for name, part in parts.items():
        (LOCKS / f"{name}.txt").write_text("\n".join(part).replace("\0", "\n") + "\n")


if __name__ == "__main__":
    main()
