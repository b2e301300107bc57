"""Which model serves a step, as the step.json of version folders say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from triton_ensemble.project import Project
from triton_ensemble.step import StepError


class Served(NamedTuple):
    """A Python step, and the version folder of the model that serves it, alone or among others."""

    name: str
    folder: Path
    manifest: Mapping[str, Any]

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.folder.parent.name

    @property
    def parts(self) -> list[Mapping[str, Any]]:
        """What the model runs, in order, up to the step: of one that serves this step alone, its whole manifest."""
        parts = self.manifest.get("steps", [self.manifest])
        names = [part["name"] for part in parts]
        return list(parts[: names.index(self.name) + 1])

    @property
    def module(self) -> str:
        """The module of steps/ that has the step's code."""
        return str(self.parts[-1]["module"])


def served(project: Project, name: str | None) -> Served:
    """Return the Python step of a name; StepError where there is none, with those that there are."""
    known = {step.name: step for step in _all(project)}
    listed = ", ".join(known) or "none"
    if not known:
        raise StepError("this pipeline has no Python step; models are tried by: make infer")
    if not name:
        raise StepError(f"which step? Write make step NAME={next(iter(known))}; there are {listed}")
    if name not in known:
        what = "has no code in steps/" if name in project.models else "is no step"
        raise StepError(f"{name}: {what}; NAME is one of {listed}")
    return known[name]


def _all(project: Project) -> Iterator[Served]:
    for version in project.step_modules:
        folder = project.repository / version
        manifest = json.loads((folder / "step.json").read_text())
        for part in manifest.get("steps", [manifest]):
            if "module" in part and "file" not in part:
                yield Served(part["name"], folder, manifest)
