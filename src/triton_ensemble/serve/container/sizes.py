"""Print the memory and disk that a pod needs for the model files, and what deploy/ gives the pod.

The files count once in memory. From a bucket they also count on disk: Triton copies them to /tmp, and KServe
copies them into a volume. If deploy/ gives less, the command prints a patch for your kustomization.yaml. It
does not include GPU memory, or memory that a backend allocates while it answers: measure those.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from triton_ensemble.facts.answers import NO_YAML, load_yaml
from triton_ensemble.facts.catalog import LOADER
from triton_ensemble.facts.project import Project, ProjectError
from triton_ensemble.facts.reading import (
    iter_files,
    read_bytes,
    read_json,
    read_text,
)

# MiB besides the model files: Triton and its backends, code that torch compiles in /tmp, logs.
SERVER_MIB, COMPILED_MIB, LOGS_MIB = 1024, 1024, 1024
MIB = 1 << 20
UNITS = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1 << 10, "Mi": MIB, "Gi": 1 << 30}


class Target(NamedTuple):
    """A description of a pod: its folder in deploy/, the file, and the place of the pod in it."""

    folder: str
    file: str
    kind: str
    pod: str


TARGETS = (
    Target("kubernetes", "base/deployment.yaml", "Deployment", "/spec/template/spec"),
    Target("kserve", "base/runtime.yaml", "ServingRuntime", "/spec"),
)


class Size(NamedTuple):
    """A limit of a pod in MiB: what is needed and what is given, and the paths of the fields that say so."""

    name: str
    needed: int
    given: int
    fields: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say how much to print."""
    short = "only print a line for each folder of deploy/ that gives too little"
    parser.add_argument("--short", action="store_true", help=short)


def run(arguments: argparse.Namespace) -> int:
    """Print the sizes. Return 0 in any case, because they are advice."""
    project = Project.load(Path.cwd())
    try:
        if arguments.short:
            warnings = [*lines(project)]
            print(*warnings, sep="\n", end="\n" * bool(warnings))
        else:
            _print_all(project)
    except BrokenPipeError:  # of a reader like `head`
        raise
    except (OSError, *NO_YAML) as error:
        raise ProjectError(f"sizes: {error}") from error
    return 0


def _print_all(project: Project) -> None:
    print(f"model files: {_sum_files_mib(project)} MiB in {len(project.models)} models")
    for file in sorted(project.repository.glob("*/*/model.json")):
        model = read_json(file).get("model", "")
        if not Path(model).is_absolute():
            what = f"vLLM fetches {model} when Triton starts"
            print(f"{file.parts[-3]}: {what}; add its size to what is needed below")
    for target in _targets(project):
        print(f"\ndeploy/{target.folder}, in MiB:")
        found = sizes(project, target)
        print(*(f"  {s.name:18} needs {s.needed:6}, has {s.given:6}" for s in found), sep="\n")
        if short := [size for size in found if size.needed > size.given]:
            print(f"Add to patches in deploy/{target.folder}/kustomization.yaml:")
            print(f"  - target: {{ kind: {target.kind} }}\n    patch: |")
            for path, needed in ((path, size.needed) for size in short for path in size.fields):
                print(f"      - {{ op: replace, path: {path}, value: {needed}Mi }}")


def lines(project: Project) -> Iterator[str]:
    """Yield a line for each folder of deploy/ whose pods have too little for the model files."""
    for target in _targets(project):
        short = [size for size in sizes(project, target) if size.needed > size.given]
        what = ", ".join(f"{size.name} {size.given} MiB of {size.needed}" for size in short)
        if what:
            yield f"deploy/{target.folder}: gives its pods too few resources: {what}; run: make sizes"


def sizes(project: Project, target: Target) -> list[Size]:
    """Return what pods need of each resource, and what deploy/ and its owner's patches give them."""
    folder = project.root / "deploy" / target.folder
    owned = load_yaml(read_bytes(folder / "kustomization.yaml")) or {}
    documents = yaml.load_all(read_text(folder / target.file), LOADER)
    fields = dict(_fields(next(documents))) | _read_patches(owned)
    resources = f"{target.pod}/containers/0/resources"
    shm, tmp = (f"{target.pod}/volumes/{place}/emptyDir/sizeLimit" for place in (0, 1))
    files = _sum_files_mib(project)
    copied = files if "components/s3" in (owned.get("components") or ()) else 0
    downloaded = files if target.folder == "kserve" else copied
    memory, storage = f"{resources}/limits/memory", f"{resources}/limits/ephemeral-storage"
    needed = {
        "memory": (files + _parse_mib(fields[shm]) + SERVER_MIB, memory),
        "ephemeral-storage": (downloaded + COMPILED_MIB + LOGS_MIB, storage),
        "/tmp": (copied + COMPILED_MIB, tmp),
    }
    more = {"memory": (f"{resources}/requests/memory",)}
    return [
        Size(name, mib, _parse_mib(fields[path]), (path, *more.get(name, ())))
        for name, (mib, path) in needed.items()
    ]


def _targets(project: Project) -> list[Target]:
    files = ((each, project.root / "deploy" / each.folder) for each in TARGETS)
    return [
        each
        for each, folder in files
        if (folder / each.file).is_file() and (folder / "kustomization.yaml").is_file()
    ]


def _sum_files_mib(project: Project) -> int:
    files = iter_files(project.repository)
    return -(-sum(path.stat().st_size for path in files) // MIB)


def _fields(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values in a document by their JSON pointers."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _fields(value, f"{path}/{key}")
    elif isinstance(node, list):
        for place, value in enumerate(node):
            yield from _fields(value, f"{path}/{place}")
    else:
        yield path, node


def _read_patches(owned: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the JSON patches in a kustomization.yaml by their pointers."""
    patches = (yaml.load(each.get("patch", ""), LOADER) for each in owned.get("patches") or ())
    operations = (each for patch in patches if isinstance(patch, list) for each in patch)
    return {each["path"]: each["value"] for each in operations if "value" in each}


def _parse_mib(quantity: Any) -> int:
    """Return a quantity of Kubernetes in whole MiB."""
    match = re.fullmatch(r"([\d.]+)([kMG]|[KMG]i)?", str(quantity))
    return int(float(match[1]) * UNITS[match[2] or ""] / MIB) if match else 0
