"""Which model serves a step, as the step.json of version folders say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from triton_ensemble.adapter.seams import Manifest, StepManifest, read_manifest
from triton_ensemble.facts.project import Project
from triton_ensemble.step import StepError


class Served(NamedTuple):
    """A Python step, and the version folder of the model that serves it, alone or among others."""

    name: str
    folder: Path
    manifest: Manifest
    shared: bool  # by several steps

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.folder.parent.name

    @property
    def parts(self) -> list[StepManifest]:
        """The steps that the model runs, in order, up to this step."""
        names = [part["name"] for part in self.manifest["steps"]]
        return self.manifest["steps"][: names.index(self.name) + 1]

    @property
    def module(self) -> str:
        """The module of steps/ that has the step's code."""
        return self.parts[-1]["module"]


def find_served(project: Project, name: str | None) -> Served:
    """Return the Python step of a name. Raise StepError, with the known names, if it is unknown."""
    known = {step.name: step for step in _all(project)}
    listed = ", ".join(known) or "none"
    if not known:
        raise StepError("this pipeline has no Python step; to try models, run: make infer")
    if not name:
        raise StepError(f"which step? Write make step NAME={next(iter(known))}; there are {listed}")
    if name not in known:
        what = "has no code in steps/" if name in project.models else "is not a step"
        raise StepError(f"{name}: {what}; NAME is one of {listed}")
    return known[name]


def _all(project: Project) -> Iterator[Served]:
    for version in project.step_modules:
        folder = project.repository / version
        manifest, shared = read_manifest(folder)
        for part in manifest["steps"]:
            if "module" in part and "file" not in part:
                yield Served(part["name"], folder, manifest, shared)
