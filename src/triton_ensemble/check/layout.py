"""The folder of a model: its name, versions, backend and the files that the config names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from triton_ensemble.check.findings import Finding
from triton_ensemble.check.models import (
    KNOWN,
    PLATFORMS,
    RESERVED,
    VERSIONS,
    Model,
    Setting,
    enum_name,
    nearest,
    unreadable,
    version_of,
)
from triton_ensemble.server.local_repository import BACKENDS

# Characters that Triton refuses in the name of a Python model, or that its shell would take apart.
ODD = re.compile(r"[^!-~]|[;|&$`<>()\[\]{}\\\"'*?~#!]")
# Those that Triton knows by a platform too, and then wants it to be theirs.
PAIRED = ("onnxruntime", "pytorch", "tensorflow", "tensorrt")
PYTHON_FILE = re.compile(r"(\.\./[0-9]+/)?([\w-]+/)*[\w-]+\.py", re.ASCII)
FILES = {backend: file for file, backend in BACKENDS.items() if backend != "tensorflow"} | {
    "dali": "model.dali",
    "vllm": "model.json",
}
OLDEST = "24.10"  # release that the rules know
# What came with a release, or went after one.
ADDED = {"model_metrics": "24.11", "max_inflight_requests": "25.11"}
OWN_FOLDER = "$$TRITON_MODEL_DIRECTORY"
OF_FOLDER = f"put it in the model's folder, and write {OWN_FOLDER}/..."
LAST_WITH_TENSORFLOW = "25.02"
NO_TYPES = {
    "python": ("BF16",),
    "onnxruntime": ("BF16",),
    "openvino": ("FP64", "BF16", "STRING"),
    "pytorch": ("UINT16", "UINT32", "UINT64", "BF16"),
    "tensorrt": ("UINT16", "UINT32", "UINT64", "FP64", "STRING"),
}


def layout(model: Model, setting: Setting) -> Iterator[Finding]:
    for rules in (names, versions, backend, runtime, model_files, labels, types):
        yield from rules(model)
    yield from releases(model, setting)


def broken_links(folder: Path) -> Iterator[Finding]:
    """Those to nowhere, in the repository or the folder of a model: of each entry Triton asks what it is."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink() and not path.exists():
            what = f"failed to stat file {path.name}, a link to {path.readlink()}"
            yield Finding(path, 1, "broken-link", what, "remove it, or put there what it points to")


def names(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    if model.config.name not in ("", model.name):
        what = f"unexpected directory name '{model.name}' for model '{model.config.name}', directory name must equal model name"
        instead = f'write name: "{model.name}", or rename the folder'
        yield model.finding("name", what, instead, "name")
    if model.backend == "python" and ODD.search(model.name):
        what = f"Invalid stub name: '{model.name}' contains invalid characters"
        yield model.finding("folder-name", what, "use letters, digits, `_`, `-` and `.`", "name")


def versions(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    policy = ("version_policy",)
    for folder in model.folders:
        yield from folder_problem(model, folder)
    for version in model.config.version_policy.specific.versions:
        if version not in model.versions:
            what = f"version {version} is specified for model '{model.name}', but the version directory is not present"
            yield model.finding(
                "version-listed", what, "add its folder, or take it out", *policy, "specific"
            )
    if not model.loaded:
        what = f"at least one version must be available under the version policy of model '{model.name}'"
        has = (
            f"the folder has {', '.join(map(str, model.versions))}"
            if model.versions
            else f"add the folder {model.name}/1 (not 01, not v1)"
        )
        yield model.finding("version", what, has, *policy)


def folder_problem(model: Model, folder: str) -> Iterator[Finding]:
    version, rule = version_of(folder), "version-folder"
    if folder in RESERVED or (folder == str(version) and 0 <= int(folder) < VERSIONS):
        return
    if version is None:
        zeros = "contains leading zeros in its directory name"
        why = zeros if folder[0] == "0" else "fails to convert to integral number"
        what = f"ignore version directory '{folder}' which {why}"
    elif -VERSIONS <= version < VERSIONS:
        what = f"version directory '{folder}' counts as version {version}, whose files Triton seeks in '{seen_as(version)}'"
    else:
        what = f"version directory '{folder}' is no 64-bit number, and Triton dies of it"
        rule = "version"
    yield model.finding(rule, what, "rename it to a number, or move it away")


def backend(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    name, platform = model.config.backend, model.config.platform
    if platform == "ensemble":
        if name:
            what = f"Ensemble model '{model.name}' must have platform type 'ensemble' and empty backend type"
            yield model.finding("ensemble-platform", what, "take the backend out", "backend")
        return
    if model.is_ensemble:
        what = f"ensemble scheduling cannot be set for model '{model.name}' whose platform is not ensemble"
        yield model.finding(
            "ensemble-platform", what, 'write platform: "ensemble" and no backend', "platform"
        )
    elif platform and not name and platform not in PLATFORMS:
        known = nearest(platform, PLATFORMS, "")
        what = f"unexpected platform type '{platform}' for {model.name}"
        yield model.finding(
            "backend", what, known or f'write backend: "{platform}" instead', "platform"
        )
    elif not model.backend:
        what = f"Invalid model name: Could not determine backend for model '{model.name}' with no backend in model configuration"
        yield model.finding("backend", what, 'write backend: "..."', "backend")
    elif name in PAIRED and platform and PLATFORMS.get(platform) != name:
        what = f"unexpected 'platform' and 'backend' pair, got:{platform}, {name}"
        yield model.finding("backend", what, "take the platform out", "platform")
    elif name == "ensemble":
        what = "ensemble is a platform, and no backend"
        yield model.finding("backend", what, 'write platform: "ensemble"', "backend")
    elif name and name not in KNOWN and (meant := meant_backend(model)):
        what = f"unable to find backend library for backend '{name}'"
        yield model.finding("backend-misspelt", what, meant, "backend")


def meant_backend(model: Model) -> str:
    """An unknown backend may be one of your own, unless its name or the model's file says otherwise."""
    assert model.config is not None
    by_file = (f'write backend: "{name}", as {file} is its file' for file, name in BACKENDS.items())
    of_files = (text for file, text in zip(BACKENDS, by_file, strict=True) if file in model.files)
    return nearest(model.config.backend, KNOWN, next(of_files, ""))


def runtime(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    name = model.config.runtime
    if name and not model.is_ensemble and not name.endswith((".so", ".py")):
        what = f"unable to find backend library '{name}' for model '{model.name}'"
        yield model.finding("backend", what, "take the runtime out", "runtime")
    path = (
        model.config.parameters["EXECUTION_ENV_PATH"].string_value
        if "EXECUTION_ENV_PATH" in model.config.parameters
        else ""
    )
    inside = path.removeprefix(OWN_FOLDER).lstrip("/")
    lost = path.startswith(OWN_FOLDER) and not (model.folder / inside).exists()
    if lost or (path and path[0] not in "/$"):
        what = f"Failed to get the canonical path for {path}"
        yield model.finding(
            "execution-environment", what, OF_FOLDER, ("parameters", "EXECUTION_ENV_PATH")
        )


def model_files(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    default = FILES.get(model.backend)
    if model.config.runtime.endswith(".py"):
        default = model.config.runtime
    wanted = model.config.default_model_filename or default
    if not default or not wanted or model.config.cc_model_filenames:
        return
    if model.config.platform == "torch_aoti":
        wanted = model.config.default_model_filename or "model.pt2"
    if model.backend == "python" and not PYTHON_FILE.fullmatch(wanted):
        what = f"'{wanted}' is no module that Python imports from a version's folder"
        yield model.finding("model-file", what, "name it model.py", "default_model_filename")
        return
    for version in model.loaded:
        file = model.file(seen_as(version), wanted)
        if not (file.is_file() if wanted.endswith(".py") else file.exists()):
            what = f"unable to find '{model.name}/{seen_as(version)}/{wanted}', which backend {model.backend} loads"
            yield model.finding("model-file", what, "put it there", "default_model_filename")


def seen_as(version: int) -> str:
    """The folder that Triton looks in: it takes the sign for a bit more."""
    return str(version % (2 * VERSIONS))


def labels(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    for i, tensor in enumerate(model.config.output):
        place = (("output", i), "label_filename")
        if not tensor.label_filename:
            continue
        file = model.file(tensor.label_filename)
        if why := unreadable(file):
            yield model.finding("label-file", why, "put it next to the config", *place)
            continue
        if ".." in tensor.label_filename.split("/"):
            what = f"the label file {tensor.label_filename} lies outside the model's folder, which Triton refuses since 26.02"
            yield model.finding("label-file", what, "put it next to the config", *place)
        found, size = len(file.read_bytes().splitlines()), math.prod(tensor.dims)
        if min(tensor.dims, default=-1) > 0 and found < size:
            what = f"{tensor.label_filename} has {found} labels, but output {tensor.name} has {size} values"
            yield model.finding("label-count", what, "add the missing ones, a line each", *place)


def types(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    without = NO_TYPES.get(model.backend, ())
    for side, tensors in (("input", model.config.input), ("output", model.config.output)):
        for i, tensor in enumerate(tensors):
            name = enum_name(tensor, "data_type")
            if name.removeprefix("TYPE_") in without:
                what = f"{side} {tensor.name} is {name}, which {model.backend} does not have"
                yield model.finding(
                    "tensor-type-unsupported",
                    what,
                    "choose another type or backend",
                    (side, i),
                    "data_type",
                )


def releases(model: Model, setting: Setting) -> Iterator[Finding]:
    """Only for a release that is known."""
    if not setting.release:
        return
    for field in model.lines.walk():
        since = ADDED.get(field.name, "")
        if since > setting.release:
            what = f'Message type has no field named "{field.name}" before Triton {since}'
            yield Finding(
                model.path,
                field.line,
                "too-new",
                what,
                f"take it out, or raise the release from {setting.release}",
            )
    if model.backend == "tensorflow" and setting.release > LAST_WITH_TENSORFLOW:
        what = f"tensorflow went with Triton {LAST_WITH_TENSORFLOW}"
        yield model.finding("backend-gone", what, "export the model to ONNX", "platform")
