"""Engines of TensorRT: engines/RELEASE/GPU/MODEL/VERSION/ has each, with a record of what it was built of and for.

This needs the standard library alone, because engines are built and checked in Triton's image.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from triton_ensemble.facts.project import Project
from triton_ensemble.serve import RepositoryError
from triton_ensemble.serve.published import digest

FOLDER = "engines"
ONNX = "model.onnx"
PLANS = "model.*.plan"


class Gpu(NamedTuple):
    """A kind of GPU."""

    name: str
    capability: str  # its compute capability, by which Triton takes an engine

    def __str__(self) -> str:
        return f"{self.name} (compute capability {self.capability})"


@dataclass(frozen=True)
class Record:
    """The files and GPU from which an engine was built. The record is beside the engine, as JSON."""

    onnx: str  # digest of the version folder that it was built of
    flags: tuple[str, ...]  # of trtexec
    gpu: str
    capability: str
    release: str  # of Triton's container, and so TensorRT's
    plan: str  # digest of the engine

    @classmethod
    def read(cls, plan: Path) -> Record | None:
        """Return the record of an engine, or None if it is missing or can't be read."""
        try:
            content = json.loads(plan.with_suffix(".json").read_text())
            return cls(**content | {"flags": tuple(content["flags"])})
        except (OSError, TypeError, ValueError, KeyError):
            return None

    def write(self, plan: Path) -> None:
        plan.with_suffix(".json").write_text(json.dumps(vars(self), indent=1) + "\n")

    def is_of(self, onnx: str, flags: list[str]) -> bool:
        """Return whether an engine that is built now would differ only by the GPU and the release."""
        return (self.onnx, self.flags) == (onnx, tuple(flags))


def versions(project: Project, repository: Path) -> Iterator[tuple[str, Path]]:
    """Yield each model that engines are built for, with a version folder of it."""
    for name in project.engines:
        for onnx in sorted((repository / name).glob(f"[1-9]*/{ONNX}")):
            yield name, onnx.parent


def onnx_digest(version: Path) -> str:
    """Return a digest of the ONNX file and of what lies beside it, such as its weights."""
    plans = {path.stem for path in version.glob(PLANS)}
    content = hashlib.sha256()
    for path in sorted(version.iterdir()):
        if path.is_file() and path.stem not in plans:
            content.update(f"{path.name}:{digest(path)}\n".encode())
    return content.hexdigest()


def plans(project: Project) -> dict[Path, Path]:
    """Return the engines of this release, by their targets in model_repository/.

    Raise RepositoryError if two engines have the same target.
    """
    found: dict[Path, Path] = {}
    release = project.root / FOLDER / project.release
    for name in project.engines:
        for plan in sorted(release.glob(f"*/{name}/*/{PLANS}")):
            target = project.repository / name / plan.parent.name / plan.name
            if first := found.get(target):
                one, two = (path.relative_to(project.root) for path in (first, plan))
                what = (
                    f"{one} and {two} are for one compute capability, by which Triton takes a file"
                )
                raise RepositoryError(f"{what}; remove one of them")
            found[target] = plan
    return found


def is_current(project: Project, target: Path, plan: Path) -> bool:
    """Return whether an engine is of the ONNX file that its version folder has now."""
    record, version = Record.read(plan), target.parent
    if record is None or not (version / ONNX).is_file():
        return False
    return record.is_of(onnx_digest(version), project.engines[version.parent.name])


def problems(
    project: Project, repository: Path, gpus: list[Gpu], release: str
) -> Iterator[tuple[bool, str]]:
    """Yield what is wrong with engines for a server that has these GPUs and is of this release, and whether it can't load them."""
    again = "run `make engines` on such a GPU, then deploy again"
    for name, version in versions(project, repository):
        built = {gpu: Record.read(version / f"model.{gpu.capability}.plan") for gpu in gpus}
        for gpu, record in built.items():
            plan = version / f"model.{gpu.capability}.plan"
            if record is None or not plan.is_file():
                # Of several kinds of GPUs, a model may be on one alone.
                yield not any(built.values()), f"{name}: has no engine for {gpu}; {again}"
            elif not release.startswith(record.release):
                what = f"its engine is of release {record.release}, and this is {release}"
                yield True, f"{name}: {what}; {again}"
            elif digest(plan) != record.plan:
                yield True, f"{name}: {version.name}/{plan.name} is damaged; {again}"
            elif record.gpu != gpu.name:
                what = f"its engine was built on {record.gpu}, and may be slower on {gpu.name}"
                yield False, f"{name}: {what}; {again}"
