"""The inputs of a step for a sample, kept in build/steps/, so that the models before the step run only once.

The file is a request of the step's model, in the form of samples/. It is used until a file of the samples or of the
model repository, other than the step's own, is newer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from triton_ensemble.facts.client import Arrays
from triton_ensemble.facts.project import Project
from triton_ensemble.step.manifests import Served
from triton_ensemble.step.upstream import sample_of_file
from triton_ensemble.testing.files import Sample, text


class Recorded:
    """The file for a step and a sample."""

    def __init__(self, project: Project, step: Served, sample: Sample) -> None:
        self._project, self._step = project, step
        self.path = project.root / "build" / "steps" / f"{step.name}.{sample.name}.json"

    def read(self) -> Sample | None:
        """Return the request, or None if it was never recorded or is too old.

        Return None also if the environment names a server, which is to be asked.
        """
        named = os.environ.get("TRITON_GRPC_URL") or os.environ.get("TRITON_URL")
        if named or not self.path.exists():
            return None
        recorded = self.path.stat().st_mtime
        if any(path.stat().st_mtime >= recorded for path in self._sources()):
            return None
        return sample_of_file(self._project, self._step, self.path)

    def _sources(self) -> Iterator[Path]:
        own = self._step.folder.parent
        yield own / "config.pbtxt"
        for folder in (self._project.samples, self._project.repository):
            for path in folder.rglob("*"):
                if own not in path.parents and path.is_file() and "__pycache__" not in path.parts:
                    yield path

    def write(self, tensors: Arrays) -> None:
        """Keep the tensors if the folder can be written to and JSON has all of their values."""
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(text(self._project, tensors), encoding="utf-8")
            kept = sample_of_file(self._project, self._step, self.path).inputs
            if any(not np.array_equal(kept[name], array) for name, array in tensors.items()):
                self.path.unlink()
