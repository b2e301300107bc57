"""The repository that the local Triton serves: links to the files of model_repository/, beside adapted configs.

The local Triton is release 24.10, often without a GPU. The container has another release. For the local run alone,
fields that the local Triton would refuse are left out of a config, with a line for each model. All models are linked,
because Triton hands a Python model's path to a shell: with a blank or a quote in it, Triton waits forever.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from google.protobuf import text_format  # type: ignore[import-untyped, unused-ignore]

from triton_ensemble.facts import catalog
from triton_ensemble.facts.answers import answers_of
from triton_ensemble.facts.config import Model, read_models
from triton_ensemble.facts.project import STAGE, Project
from triton_ensemble.serve.local.sizes import sizes

# Fields that came after 24.10, as the two versions of model_config.proto differ.
NEWER = (("", "model_metrics"), ("ensemble_scheduling", "max_inflight_requests"))
CACHE_BYTES = 64 << 20


class LocalRepository:
    """The folder for the local Triton: `folder` gets the links, and is served with `flags`.

    `notes` say what differs, `problems` what can't run. `backends` are the local Triton's.
    """

    def __init__(self, repository: Path, folder: Path, backends: Collection[str]) -> None:
        stage, project = os.environ.get(STAGE, ""), Project.find(repository)
        if project:
            project.check_stage(stage)
        models = _models(repository, stage)
        configs = {name: model.config for name, model in models.items()}
        self.problems = [*_problems(repository, configs, backends)]
        caches = any(config.response_cache.enable for config in configs.values())
        self.flags = [f"--cache-config=local,size={CACHE_BYTES}"] if caches else []
        before = {name: _bytes(config) for name, config in configs.items()}
        gpus, wanted = gpu_count(), _count_wanted_gpus(repository, configs.values())
        undeclared = project.undeclared if project else {}
        adapted = {
            name: list(_adapt(config, gpus, undeclared.get(name, ""), repository / name))
            for name, config in configs.items()
        }
        stand_ins = {"", *catalog.VERBATIM_PLATFORMS}  # or it is known by its file
        stand_ins |= {*project.stand_ins} if project else set()
        libraries = dict[str, Path]()  # which Triton would load in place of the stand-in
        for name, config in configs.items():
            if config.backend not in stand_ins or config.platform == "ensemble":
                continue
            library = repository / name / catalog.LIBRARY.format(config.backend)
            if library.exists():
                libraries[name] = library
            if known := sizes(configs, name):
                config.parameters["sizes"].string_value = json.dumps(known)
        self.notes = [
            f"{name}: {'; '.join(dict.fromkeys(notes))}" for name, notes in adapted.items() if notes
        ]
        if 0 < gpus < wanted:
            theirs = "it serves" if gpus == 1 else "they serve"
            line = f"this machine has {gpus} of {wanted} GPUs; {theirs} what is for the others too"
            self.notes.insert(0, line)
        changed = {
            name: config
            for name, config in configs.items()
            if models[name].stage or _bytes(config) != before[name] or name in libraries
        }
        _link(repository, folder, changed, {*libraries.values()})


def _problems(
    repository: Path, configs: Mapping[str, Any], backends: Collection[str]
) -> Iterator[str]:
    """Iterate over what keeps models from being served here: a line each."""
    for name, config in configs.items():
        backend = _find_backend_by_file(repository / name, config)
        if backend not in {None, *backends}:
            what = f"Triton takes the backend {backend} for its file, which the local Triton does not have"
            yield f"{name}: {what}; write `backend: {backend}` in pipeline.yml"
        if config.backend.startswith("$"):  # a shell reads it as Triton starts the stand-in
            what = f"the backend is still {config.backend}"
            yield f"{name}: {what}; write the name of one, like tensorrtllm"


def gpu_count() -> int:
    """Return the number of GPUs that a server on this machine would see.

    If MIG divides GPUs, CUDA shows one slice of them.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        command = ["nvidia-smi", "--list-gpus"]
        listed = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    lines = listed.splitlines()
    count = sum(line.startswith("GPU ") for line in lines)
    if any(line.strip().startswith("MIG ") for line in lines):
        count = 1
    chosen = [gpu for gpu in (visible or "").split(",") if gpu.strip() not in ("", "-1")]
    return count if visible is None else min(count, len(chosen))


def _count_wanted_gpus(repository: Path, configs: Iterable[Any]) -> int:
    """Return the project's number of GPUs, or in another repository the highest GPU in a config plus one."""
    listed = [gpu for config in configs for group in config.instance_group for gpu in group.gpus]
    return int(answers_of(repository).get("gpu_count") or 0) or max(listed, default=-1) + 1


def _models(repository: Path, stage: str) -> dict[str, Model]:
    """Return the models whose configs can be parsed. Triton says what is wrong with the others."""
    models = read_models(repository, stage).values()
    return {m.name: m for m in models if isinstance(m, Model) and m.has_config}


def _bytes(config: Any) -> bytes:
    return bytes(config.SerializeToString(deterministic=True))


def _find_backend_by_file(model: Path, config: Any) -> str | None:
    if config.backend or config.platform:
        return None
    files = {path.name for path in model.glob("[1-9]*/*")} | {config.default_model_filename}
    return next(
        (backend for file, backend in catalog.read_backends_by_file().items() if file in files),
        None,
    )


def _adapt(config: Any, gpus: int, undeclared: str, model: Path) -> Iterator[str]:
    """Adapt a config to the local Triton, and yield in words what was changed."""
    _replace_platform(config, gpus, model)
    yield from _replace_engine(config, model)
    _hide_file_name(config)
    yield from _drop_newer_fields(config)
    yield from _declare_tensors(config, undeclared)
    yield from _set_instances(config, gpus)


def _replace_platform(config: Any, gpus: int, model: Path) -> None:
    """Let our backend, or a stand-in, serve a platform that the local Triton refuses."""
    if config.platform == "torch_aoti":
        config.default_model_filename = config.default_model_filename or "model.pt2"
        files = [*model.glob(f"[1-9]*/{config.default_model_filename}")]
        if files and all(_runs_here(file, gpus) for file in files):
            config.backend, config.platform = "pytorch", ""
    if config.platform in catalog.VERBATIM_PLATFORMS and config.backend != "tensorflow":
        config.backend, config.platform = config.platform, ""


def _runs_here(package: Path, gpus: int) -> bool:
    """Return whether an archive does not say that it is compiled for a GPU, or this machine has one."""
    try:
        with ZipFile(package) as archive:
            names = [name for name in archive.namelist() if name.endswith("wrapper_metadata.json")]
            devices = {json.loads(archive.read(name)).get("AOTI_DEVICE_KEY") for name in names}
    except (BadZipFile, ValueError):
        return False
    return bool(gpus) or devices <= {"cpu"}


def _drop_newer_fields(config: Any) -> Iterator[str]:
    for place, field in NEWER:
        message = getattr(config, place) if place and config.HasField(place) else config
        if field in message.DESCRIPTOR.fields_by_name and _has(message, field):
            message.ClearField(field)
            yield f"{field} is left out here, Triton 24.10 does not have it"


def _replace_engine(config: Any, model: Path) -> Iterator[str]:
    """Replace a TensorRT engine, which is built for a GPU, by the model from which it is built."""
    if config.backend == "tensorrt" and config.cc_model_filenames and [*model.glob("*/model.onnx")]:
        config.backend, config.default_model_filename = "onnxruntime", "model.onnx"
        config.ClearField("cc_model_filenames")
        yield "a stand-in for tensorrt runs its model.onnx by ONNX Runtime"


def _hide_file_name(config: Any) -> None:
    """Hand a name with a blank or a quote to the local backend alone: Triton would pass it to a shell."""
    file = config.default_model_filename
    if file and config.backend != "python" and shlex.quote(file) != file:
        config.ClearField("default_model_filename")
        config.parameters["default_model_filename"].string_value = file


def _has(message: Any, field: str) -> bool:
    return field in {descriptor.name for descriptor, _ in message.ListFields()}


def _declare_tensors(config: Any, undeclared: str) -> Iterator[str]:
    """Declare the tensors that the container's backend reads from the model file, as the pipeline has them."""
    if config.input or config.output or not undeclared:
        return
    text_format.Merge(undeclared, config)
    for tensor in (*config.input, *config.output):
        if not tensor.dims and not tensor.HasField("reshape"):
            tensor.dims.append(-1)
    config.parameters["undeclared"].string_value = "true"
    yield "its inputs and outputs are those of pipeline.yml here"


def _set_instances(config: Any, gpus: int) -> Iterator[str]:
    most = 2 * len(os.sched_getaffinity(0))
    for group in config.instance_group:
        if (group.kind == group.KIND_GPU or group.gpus) and not gpus:
            group.kind = group.KIND_CPU
            for field in ("gpus", "secondary_devices", "profile"):
                group.ClearField(field)
            yield "GPU instances run on the CPU here"
        elif max(group.gpus, default=0) >= gpus > 0:  # apart, as far as there are GPUs
            group.gpus[:] = sorted({gpu % gpus for gpu in group.gpus})
        if group.count > most:
            yield f"{most} instances run here, not {group.count}"
            group.count = most


def _link(
    repository: Path, folder: Path, configs: dict[str, Any], left_out: Collection[Path]
) -> None:
    """Fill `folder` with links to what `repository` has, but for the configs given and what is left out."""
    folder.mkdir()
    for entry in repository.iterdir():
        if entry.name not in configs:
            (folder / entry.name).symlink_to(entry)
            continue
        (folder / entry.name).mkdir()
        for part in entry.iterdir():
            if part.name != "config.pbtxt" and part not in left_out:
                (folder / entry.name / part.name).symlink_to(part)
        text = text_format.MessageToString(configs[entry.name])
        (folder / entry.name / "config.pbtxt").write_text(text)
