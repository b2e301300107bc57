"""Loads models of a project anew when their owner changes pipeline.yml, a step or how a model file is made."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.facts.project import Project
from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.log import one_line

LOAD_TIMEOUT_S = 300
EACH_S = 1.0
Files = dict[Path, tuple[int, int]]  # time of change and size, by path


class Reloader:
    """Watches pipeline.yml, steps/, models/ and src/*.py of a project that a Triton in explicit model control mode serves."""

    def __init__(self, project: Project, triton: LocalTriton) -> None:
        self._project, self._triton = project, triton
        self._client = grpc.InferenceServerClient(triton.grpc_url.partition("://")[2])
        self._seen, self._next = self._read_watched(), 0.0

    def look(self) -> bool:
        """Complete the model repository after a change, and load the models that it changes, once a second.

        Return whether configs changed, because Triton then has to start anew.
        """
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + EACH_S
        seen, now = self._seen, self._read_watched()
        changed = [path for path in seen | now if seen.get(path) != now.get(path)]
        self._seen = now
        if changed:
            print(
                ", ".join(str(p.relative_to(self._project.root)) for p in sorted(changed)),
                "changed",
                flush=True,
            )
            before, configs = self._read_files(), self._configs()
            # In a process of its own: models/ may import what has changed.
            command = [sys.executable, "-m", "triton_ensemble", "repository"]
            if subprocess.run(command, cwd=self._project.root).returncode == 0:
                if self._configs() != configs:
                    self._client.close()  # an idle connection holds Triton's end up
                    return True
                after = self._read_files()
                self.load(name for name in after if after[name] != before.get(name))
        return False

    def load(self, models: Iterable[str]) -> None:
        """Load models again, and print the result. If one fails, Triton keeps the version that it had."""
        for model in models:
            for version in self._project.repository.glob(f"{model}/[0-9]*"):
                version.touch()  # Triton leaves alone what is as it was
            start = time.monotonic()
            try:
                self._client.load_model(model, client_timeout=LOAD_TIMEOUT_S)
                text = f"reloaded in {time.monotonic() - start:.1f} s"
            except InferenceServerException as error:
                reason = str(error.message()).partition(" state: ")[2] or str(error.message())
                reason = self._triton.ours(
                    one_line(reason.removeprefix("Internal: ").strip(";\n "))
                )
                text = f"can't be loaded, so the former version stays: {reason}"
            print(f"{model}: {text}", flush=True)

    def _read_watched(self) -> Files:
        root = self._project.root
        return _files(
            [
                root / "pipeline.yml",
                *(root / "steps").rglob("*"),
                *(root / "models").rglob("*"),
                *root.glob("src/*.py"),
            ]
        )

    def _configs(self) -> Files:
        return _files(self._project.repository.glob("*/config.pbtxt"))

    def _read_files(self) -> dict[str, Files]:
        repository = self._project.repository
        return {name: _files((repository / name).rglob("*")) for name in self._project.models}


def _files(paths: Iterable[Path]) -> Files:
    """Return the time and size that tell each file from a later one.

    Files of editors that are gone again are left out.
    """
    files: Files = {}
    for path in paths:
        if "__pycache__" not in path.parts and path.is_file():
            status = path.stat()
            files[path] = status.st_mtime_ns, status.st_size
    return files
