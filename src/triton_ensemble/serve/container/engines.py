"""Build the engines of TensorRT that this project lacks, for each kind of GPU of this machine.

The command runs trtexec in Triton's image. TRITON_IMAGE names another, and DOCKER the program (default:
docker). It builds an engine if its ONNX file, the flags, the GPU or the release changed, or the engine is
damaged.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from triton_ensemble.facts.project import Project, ProjectError
from triton_ensemble.facts.terminal import escape_streams
from triton_ensemble.serve.engines import (
    FOLDER,
    ONNX,
    Gpu,
    Record,
    onnx_digest,
    versions,
)
from triton_ensemble.serve.published import digest

if TYPE_CHECKING:
    from triton_ensemble.serve.container.settings import Settings

RELEASE = "NVIDIA_TRITON_SERVER_VERSION"  # which Triton's image sets
# Where NVIDIA's images have it, on no path.
TRTEXEC = "/usr/src/tensorrt/bin/trtexec"
QUERY = ("nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader")


def run(arguments: argparse.Namespace) -> int:
    """Build in the image, complete the model repository with the engines, and return the exit status."""
    from triton_ensemble.serve import RepositoryError
    from triton_ensemble.serve.complete import complete
    from triton_ensemble.serve.container.images import call
    from triton_ensemble.serve.container.settings import Settings

    project = Project.load(Path.cwd())
    if not project.engines:
        raise ProjectError("pipeline.yml: no step has trtexec, so there is no engine to build")
    (project.root / FOLDER).mkdir(exist_ok=True)
    try:
        if status := call(list_words(Settings.read(project))):
            return status
        complete(project, print)
    except (OSError, RepositoryError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def list_words(settings: Settings) -> list[str]:
    """Return the command that runs this module in Triton's image, which may write engines alone."""
    [wheel, *_] = sorted(settings.root.glob("vendor/*.whl"))
    mounted = (f"{settings.root}:/project:ro", f"{settings.root}/{FOLDER}:/project/{FOLDER}")
    volumes = [word for each in mounted for word in ("--volume", each)]
    own = ["run", "--rm", "--gpus", "all", "--user", f"{os.getuid()}:{os.getgid()}", *volumes]
    path = f"PYTHONPATH=/project/vendor/{wheel.name}"
    place = ["--workdir", "/project", "--env", path, "--entrypoint", "python3"]
    image = settings.images["TRITON_IMAGE"]
    return [*settings.docker, *own, *place, image, "-m", "triton_ensemble.serve.container.engines"]


def main() -> int:
    """Build what is missing on the GPUs of this container, and return the exit status.

    Print a line for each engine.
    """
    try:
        project = Project.load(Path())
        for line in build(project, gpus(), os.environ.get(RELEASE, "")):
            print(line, flush=True)
    except (EngineError, OSError, ProjectError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


class EngineError(RuntimeError):
    """An error that says why no engine can be built: what is missing, what to do."""


def gpus() -> list[Gpu]:
    """Return the GPUs that nvidia-smi names, in its order, or none if it is missing."""
    try:
        listed = subprocess.run(QUERY, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = (line.rpartition(",") for line in listed.splitlines())
    return [Gpu(name.strip(), capability.strip()) for name, _, capability in rows if name]


def build(project: Project, found: list[Gpu], release: str) -> Iterator[str]:
    """Build each engine that is missing, and yield what became of it. Raise EngineError if that can't be."""
    if not found:
        raise EngineError(
            "engines: found no GPU; run it where `nvidia-smi` shows the GPU to serve on"
        )
    if release and not release.startswith(project.release):
        image = f"TRITON_IMAGE is of release {release}"
        raise EngineError(f"engines: {image}; name one of {project.release}")
    trtexec = shutil.which("trtexec") or shutil.which(TRTEXEC)
    if not trtexec:
        raise EngineError(
            "engines: this image has no trtexec; name one that has, as "
            f"TRITON_IMAGE=nvcr.io/nvidia/tensorrt:{project.release}-py3"
        )
    for name, version in versions(project, project.repository):
        onnx, flags = onnx_digest(version), project.engines[name]
        for gpu in dict.fromkeys(found):
            folder = project.root / FOLDER / project.release / _make_folder_name(gpu.name)
            plan = folder / name / version.name / f"model.{gpu.capability}.plan"
            where = f"{name}/{version.name} on {gpu}"
            if _is_current(plan, onnx, flags):
                yield f"{where}: is current"
                continue
            yield f"{where}: building ..."
            plan.parent.mkdir(parents=True, exist_ok=True)
            cache = folder / "timing.cache"
            _run(trtexec, version / ONNX, plan, cache, found.index(gpu), flags)
            record = Record(
                onnx, tuple(flags), gpu.name, gpu.capability, project.release, digest(plan)
            )
            record.write(plan)
            yield f"{where}: {plan.relative_to(project.root)}"


def _make_folder_name(gpu: str) -> str:
    return re.sub(r"\W+", "-", gpu).strip("-")


def _is_current(plan: Path, onnx: str, flags: list[str]) -> bool:
    record = Record.read(plan)
    if record is None or not record.is_of(onnx, flags) or not plan.is_file():
        return False
    return digest(plan) == record.plan


def _run(trtexec: str, onnx: Path, plan: Path, cache: Path, device: int, flags: list[str]) -> None:
    """Write an engine, and a log beside it.

    Raise EngineError if trtexec fails, which leaves the former engine.
    """
    unfinished, log = plan.with_suffix(".unfinished"), plan.with_suffix(".log")
    command = [trtexec, f"--onnx={onnx}", f"--saveEngine={unfinished}"]
    command += [f"--timingCacheFile={cache}", f"--device={device}", "--skipInference", *flags]
    # trtexec counts GPUs as CUDA does, nvidia-smi by their place on the bus.
    environment = os.environ | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    with log.open("w") as output:
        code = subprocess.run(command, env=environment, stdout=output, stderr=output).returncode
    if code or not unfinished.is_file():
        unfinished.unlink(missing_ok=True)
        said = [line for line in log.read_text(errors="replace").splitlines() if "[E]" in line]
        reason = said[0].partition("[E]")[2].strip() if said else f"exit code {code}"
        raise EngineError(f"{onnx.parent.parent.name}: trtexec failed: {reason}; log: {log}")
    unfinished.replace(plan)


if __name__ == "__main__":
    escape_streams()
    sys.exit(main())
