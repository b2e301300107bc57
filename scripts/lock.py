"""Locks the packages of this repository and of generated projects: one resolution for all, so that any choice fits together.

Writes requirements.lock (what `make demo` needs), requirements-dev.lock (what tests and linters need
besides), locks/*.txt and template/vendor/copier.txt (of generated projects) with `uv`: versions and
hashes, no index.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "locks"
# The local Triton needs numpy<2, which has no wheel for Python 3.13.
PROJECT = "[tool.uv]\nenvironments = [\"python_version < '3.13' and platform_python_implementation == 'CPython'\"]\n"
# Of a generated project: what serves it, and the toolkit's own requirements.
RUN = [
    "jinja2",
    "jinja2-ansible-filters",
    "numpy<2",
    "nvidia-pytriton==0.7.0 ; sys_platform == 'linux'",  # it has no other wheel
    "pyyaml",
    "tqdm",
    "tritonclient[grpc,http]",
]
# Of a generated project: what tests and lints it.
DEV = ["mypy", "pytest", "pytest-docker", "ruff", "types-pyyaml"]
# Of a generated project: what `make update` runs.
UPDATE = ["copier", "tqdm"]
HEAD = "# Managed by triton-ensemble-template: what `make update` runs, by hash."
# Each has a lock of its own, for the projects that need it.
PACKAGES = ["onnx", "onnxruntime", "openvino", "pillow", "scikit-learn", "skl2onnx"]
DEMO = ["copier", "hatchling", "onnxruntime", "pillow", "scikit-learn", "skl2onnx"]
DEVELOPMENT = [
    "check-jsonschema",
    "editables",
    "hypothesis",
    "pexpect",
    "pre-commit",
    "protobuf",
    "pytest-xdist",
]
# Resolved without nvidia-pytriton: with it and versions given, uv 0.13 finds no solution.
PLOT = ["matplotlib", "numpy<2"]


def compiled(requirements: list[str], versions: Path) -> list[str]:
    """Return the lock of some packages and all that they need, with the versions of another lock: an entry each."""
    options = ["--universal", "--python-version=3.10", "--generate-hashes"]
    options += ["--no-emit-index-url", "--no-header", "--no-annotate"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text(PROJECT)
        Path(folder, "packages.in").write_text("\n".join(requirements))
        constraints = ("--constraints", str(versions)) if versions.exists() else ()
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", *options, *constraints]
        run = subprocess.run(
            [*command, "packages.in"], check=True, stdout=subprocess.PIPE, text=True, cwd=folder
        )
    return run.stdout.replace("\n    --hash", "\0    --hash").splitlines()


def write(path: Path, entries: list[str]) -> None:
    """Write a lock's entries, each with its lines of hashes."""
    path.write_text("\n".join(sorted(entries)).replace("\0", "\n") + "\n")


def without(entries: list[str], others: list[str]) -> list[str]:
    """Return the entries that are not among the others."""
    return [entry for entry in entries if entry not in others]


def main() -> None:
    """Renew all versions; with `--keep`, only those of packages that no lock has yet."""
    with tempfile.TemporaryDirectory() as folder:
        versions = Path(folder, "versions.txt")
        if "--keep" in sys.argv:
            kept = [ROOT / "requirements.lock", ROOT / "requirements-dev.lock"]
            versions.write_text("\n".join(path.read_text() for path in kept if path.exists()))
        everything = compiled([*RUN, *DEV, *PACKAGES, *DEMO, *DEVELOPMENT], versions)
        write(versions, everything)
        run = compiled(RUN, versions)
        demo = compiled([*RUN, *DEMO], versions)
        known = {entry.partition("==")[0] for entry in everything}
        plot = [e for e in compiled(PLOT, versions) if e.partition("==")[0] not in known]
        write(ROOT / "requirements.lock", demo)
        write(ROOT / "requirements-dev.lock", [*without(everything, demo), *plot])
        write(ROOT / "template/vendor/copier.txt", [HEAD, *compiled(UPDATE, versions)])
        write(LOCKS / "run.txt", run)
        write(LOCKS / "dev.txt", without(compiled([*RUN, *DEV], versions), run))
        for package in PACKAGES:
            write(LOCKS / f"{package}.txt", without(compiled([package, *RUN], versions), run))


if __name__ == "__main__":
    main()
