"""Backends and the files that they load"""

from __future__ import annotations

import math
import re
import tarfile
from collections.abc import Iterator
from os.path import normpath
from pathlib import Path, PurePosixPath

from triton_ensemble.check.data_files import check_named_file, has_file
from triton_ensemble.check.examples import BATCHES
from triton_ensemble.check.repository import iter_backend_models, models
from triton_ensemble.check.rule import error, warning
from triton_ensemble.facts import catalog
from triton_ensemble.facts.config import Model, Problem, did_you_mean
from triton_ensemble.facts.config.versions import folder_of_version
from triton_ensemble.facts.reading import DATA_BYTES, read_bytes

TEST_BACKENDS = ("repeat", "square")  # in Triton's containers
BACKEND = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*|\$\{\w+\}")  # or to be filled in
PYTHON_FILE = re.compile(r"(\.\./[0-9]+/)?([\w-]+/)*[\w-]+\.py", re.ASCII)
FIL_FILES = ("xgboost", "xgboost_json", "xgboost_ubj", "lightgbm", "treelite_checkpoint")
STRATEGY = "TRITON_BATCH_STRATEGY_PATH"
CPU_ONLY = "FORCE_CPU_ONLY_INPUT_TENSORS"
OWN_FOLDER = "$$TRITON_MODEL_DIRECTORY"
LABELLED = """\
backend: "python"
output { name: "Y" data_type: TYPE_FP32 dims: [2] label_filename: "labels.txt" }
"""


def list_known_backends() -> list[str]:
    """Return the backends of Triton's containers."""
    return [*(catalog.backends().keys() - {"auto", "ensemble"}), *TEST_BACKENDS]


@error(
    "backend",
    of=iter_backend_models,
    triton="`unexpected platform type 'x' for y`, `unexpected 'platform' and 'backend' pair, got:x, "
    "y`, `unable to find backend library 'x'`",
    fails='platform: "python"\n',
    passes='backend: "python"\n',
)
def backend(model: Model) -> Iterator[Problem]:
    """A config, or the model's file, names a backend that Triton finds."""
    name, platform = model.config.backend, model.config.platform
    platforms = catalog.read_backends_by_platform()
    paired = {*platforms.values()} - {"ensemble"}  # which Triton knows by a platform too
    if platform and not name and platform not in platforms:
        what = f"unexpected platform type '{platform}' for {model.name}"
        instead = did_you_mean(platform, platforms, f'write backend: "{platform}" instead')
        yield model.problem(what, instead, "platform")
    elif not model.backend:
        what = (
            f"Invalid model name: Could not determine backend for model '{model.name}' "
            "with no backend in model configuration"
        )
        yield model.problem(what, 'write backend: "..."', "backend", missing=True)
    elif platform and name in paired and platforms.get(platform) != name:
        what = f"unexpected 'platform' and 'backend' pair, got:{platform}, {name}"
        yield model.problem(what, "take the platform out", "platform")
    elif name and not BACKEND.fullmatch(name):
        what = f"the name of the backend, {name}, reaches a shell when Triton starts its process"
        yield model.problem(what, "use letters, digits, `_`, `-` and `.`", "backend")
    elif name == "ensemble":
        what = "ensemble is a platform, and no backend"
        yield model.problem(what, 'write platform: "ensemble"', "backend")
    runtime = model.config.runtime
    of_python = model.backend == "python" and runtime.endswith(".py")
    if runtime and (not runtime.endswith((".so", ".py")) or "/" in runtime or of_python):
        what = f"unable to find backend library '{runtime}' for model '{model.name}'"
        yield model.problem(what, "take the runtime out", "runtime")


def _is_own(name: str) -> bool:
    """Return whether a backend is a known one, or named after one with a number or `_more` behind it."""
    after = re.compile(rf"({'|'.join(map(re.escape, list_known_backends()))})([0-9]+|_.+)?")
    return bool(after.fullmatch(name))


def _has_library(model: Model) -> bool:
    """Return whether the library of a model's backend lies beside its config or files, or in the project's `backends/`."""
    backend = model.config.backend
    library, root = catalog.LIBRARY.format(backend), model.folder.parent.parent
    places = (model.folder, root / "backends" / backend)
    return library in model.files or any((place / library).is_file() for place in places)


@error(
    "backend-misspelt",
    of=iter_backend_models,
    triton="`unable to find backend library for backend 'x'`; a name that is near none of Triton's, of "
    "a model with no file of theirs, may be a backend of your own and is let through; `ModuleNotFoundError: "
    "No module named 'model'` for one like ${backend}, which was not filled in",
    fails='backend: "pyton"\n',
    passes='backend: "python"\n',
)
def backend_misspelt(model: Model) -> Iterator[Problem]:
    """A backend has the name of a backend of Triton, or is your own."""
    name, known = model.config.backend, list_known_backends()
    if not name or name == "ensemble" or _is_own(name):
        return
    if re.fullmatch(r"\$\{\w+\}", name):
        what, instead = f"the backend is still {name}", "write the name of one, like tensorrtllm"
        yield model.problem(what, instead, "backend", missing=True)
        return
    by_file = (
        f'write backend: "{backend}", as {file} is its file'
        for file, backend in catalog.read_backends_by_file().items()
        if file in model.files
    )
    meant = did_you_mean(name, known, next(by_file, ""))
    if meant and not _has_library(model):
        what = f"unable to find backend library for backend '{name}'"
        own = f"put {catalog.LIBRARY.format(name)} beside the config or into backends/{name}/ of the project"
        yield model.problem(what, f"{meant.rstrip('?')}, or {own}", "backend")


@error(
    "model-file",
    of=models,
    triton="`unable to find 'x/1/model.onnx'`; for a model.py it waits for ever, or says `Python model "
    "file not found in 'x/1/model.py'`; `ModuleNotFoundError: No module named '1.model'` for a folder "
    "of that name, or one that it can't import, like /model.py; `Model name must end with '.py'. Model "
    'name is "x".`',
    fails='backend: "python"\ndefault_model_filename: "main.py"\n',
    passes='backend: "python"\ndefault_model_filename: "model.py"\n',
)
def model_file(model: Model) -> Iterator[Problem]:
    """The file that the backend loads is in each version's folder."""
    wanted = find_wanted_file(model)
    is_python = model.backend == "python"  # which does not read cc_model_filenames
    if not wanted or (model.config.cc_model_filenames and not is_python):
        return
    if is_python and not PYTHON_FILE.fullmatch(wanted):
        what = f"'{wanted}' is not a module that Python imports from a version's folder"
        yield model.problem(what, "name it model.py", "default_model_filename")
        return
    for version in model.loaded:
        folder = folder_of_version(version)
        file = model.file(folder, wanted)
        if not (file.is_file() if wanted.endswith(".py") else file.exists()):
            what = (
                f"unable to find '{model.name}/{folder}/{wanted}', "
                f"which backend {model.backend} loads"
            )
            yield model.problem(what, "put it there", "default_model_filename", missing=True)


def find_wanted_file(model: Model) -> str:
    """Return the name of the file in a version's folder, or an empty string if it is not known."""
    known = catalog.backends().get(model.backend)
    default = known.file if known and not known.file_varies else ""
    if model.config.runtime.endswith(".py"):
        default = model.config.runtime
    if default and model.config.platform == "torch_aoti":
        default = "model.pt2"
    # Triton drops a name of bytes that are not UTF-8, each of which is read as `?`.
    named = model.config.default_model_filename.strip("?") and model.config.default_model_filename
    return str(default and (named or default))


@error(
    "execution-environment",
    of=models,
    triton="`Failed to get the canonical path for x`: of a path in the model's folder, or one that is "
    "relative",
    fails="""
        backend: "python"
        parameters {
          key: "EXECUTION_ENV_PATH"
          value { string_value: "env.tar.gz" }
        }
    """,
    passes={
        "m": """
            backend: "python"
            parameters {
              key: "EXECUTION_ENV_PATH"
              value { string_value: "$$TRITON_MODEL_DIRECTORY/1/env" }
            }
        """,
        "m/1/env/bin/activate": "",
    },
)
def execution_environment(model: Model) -> Iterator[Problem]:
    """The environment of a Python model has an absolute path, or is in the model's folder."""
    if model.backend != "python" or "EXECUTION_ENV_PATH" not in model.config.parameters:
        return
    path = model.config.parameters["EXECUTION_ENV_PATH"].string_value
    inside = path.removeprefix(OWN_FOLDER).lstrip("/")
    lost = path.startswith(OWN_FOLDER) and not (model.folder / inside).exists()
    place = ("parameters", "EXECUTION_ENV_PATH")
    if lost or (path and not path.startswith(("/", "${", OWN_FOLDER))):
        what = f"Failed to get the canonical path for {path}"
        instead = f"put it in the model's folder, and write {OWN_FOLDER}/..."
        yield model.problem(what, instead, place, missing=True)
    elif path.startswith(OWN_FOLDER) and not _is_environment(model, model.folder / inside):
        what = f"{path} is not an environment: a folder with bin/activate, or an archive of one"
        yield model.problem(what, "pack it by conda-pack or venv-pack", place)


def _is_environment(model: Model, path: Path) -> bool:
    if path.is_dir():
        return (path / "bin/activate").exists()
    return model.is_foreign(path) or (path.is_file() and tarfile.is_tarfile(path))


@error(
    "batch-strategy",
    of=models,
    triton="`Batching library path not found: x`",
    fails=f'{BATCHES}parameters {{ key: "{STRATEGY}" value {{ string_value: "/models/m/lib.so" }} }}\n',
    passes={
        "m": f'{BATCHES}parameters {{ key: "{STRATEGY}" value {{ string_value: "/models/m/lib.so" }} }}\n',
        "m/lib.so": "",
    },
)
def batch_strategy(model: Model) -> Iterator[Problem]:
    """The library of a batching strategy is in the model's folder."""
    if STRATEGY not in model.config.parameters:
        return
    path = model.config.parameters[STRATEGY].string_value
    parts = PurePosixPath(path).parts  # of the server's machine: what they end with is here
    if not any(model.file(*parts[i:]).is_file() for i in range(len(parts))):
        what = f"Batching library path not found: {path}"
        instead = "put it into the model's folder, and write its path there"
        yield model.problem(what, instead, ("parameters", STRATEGY), missing=True)


@error(
    "cpu-only-inputs",
    of=iter_backend_models,
    triton="`Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: maybe`",
    fails='backend: "python"\nparameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "maybe" } }\n',
    passes='backend: "python"\nparameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }\n',
)
def cpu_only_inputs(model: Model) -> Iterator[Problem]:
    """`FORCE_CPU_ONLY_INPUT_TENSORS` of a Python model is yes or no."""
    given = model.config.parameters
    if model.backend == "python" and CPU_ONLY in given:
        value = given[CPU_ONLY].string_value
        if value not in ("yes", "no"):
            what = f"Incorrect value for {CPU_ONLY}: {value}"
            yield model.problem(what, 'write "yes" or "no"', ("parameters", CPU_ONLY))


@error(
    "repository-agents",
    of=models,
    triton="dies of `model_repository_agents` without an agent, and waits for one without a name",
    fails='backend: "python"\nmodel_repository_agents { }\n',
    passes='backend: "python"\n',
)
def repository_agents(model: Model) -> Iterator[Problem]:
    """The repository agents of a model are listed, each with its name."""
    given = model.config.model_repository_agents
    if model.config.HasField("model_repository_agents") and (
        not given.agents or not all(agent.name for agent in given.agents)
    ):
        what = f"{model.name} has model_repository_agents without the name of an agent"
        yield model.problem(what, "add it, or take the field out", "model_repository_agents")


@error(
    "label-file",
    of=models,
    triton="`failed to open text file for read x: No such file or directory`; `/etc/names` it looks for "
    "in the model's folder, as etc/names",
    fails=LABELLED,
    passes={"m": LABELLED, "m/labels.txt": "cat\ndog\n"},
)
def label_file(model: Model) -> Iterator[Problem]:
    """The label file of an output is in the model's folder."""
    for i, tensor in enumerate(model.config.output):
        place = (("output", i), "label_filename")
        if not tensor.label_filename:
            continue
        if tensor.label_filename.endswith("/"):
            what = f"failed to open text file for read {tensor.label_filename}: Not a directory"
            yield model.problem(what, "drop the / at the end", *place)
            continue
        file = model.file(tensor.label_filename)
        yield from check_named_file(model, file, *place, instead="put it next to the config")
        if has_file(model, file) and normpath(tensor.label_filename).startswith(".."):
            what = (
                f"the label file {tensor.label_filename} lies outside the model's folder, "
                "which Triton refuses since 26.02"
            )
            yield model.problem(what, "put it next to the config", *place)


@warning(
    "label-count",
    of=models,
    triton="answers without a label where there are fewer than values",
    fails={"m": LABELLED, "m/labels.txt": "cat\n"},
    passes={"m": LABELLED, "m/labels.txt": "cat\ndog\n"},
)
def label_count(model: Model) -> Iterator[Problem]:
    """A label file has a line for each value of the output."""
    for i, tensor in enumerate(model.config.output):
        file = model.file(tensor.label_filename)
        if not has_file(model, file):
            continue
        count, size = len(read_bytes(file, DATA_BYTES).splitlines()), math.prod(tensor.dims)
        if min(tensor.dims, default=-1) > 0 and count < size:
            what = (
                f"{tensor.label_filename} has {count} labels, "
                f"but output {tensor.name} has {size} values"
            )
            place = (("output", i), "label_filename")
            yield model.problem(what, "add the missing ones, a line each", *place)


@warning(
    "vllm-batches",
    of=models,
    triton="`vLLM Triton backend must be configured to use decoupled model transaction policy`; with a batch "
    "dimension it takes no prompt",
    fails={"m": 'backend: "vllm"\nmax_batch_size: 8\n', "m/1/model.json": "{}"},
    passes={
        "m": 'backend: "vllm"\nmodel_transaction_policy { decoupled: true }\n',
        "m/1/model.json": "{}",
    },
)
def vllm_batches(model: Model) -> Iterator[Problem]:
    """A model of vLLM is decoupled and lacks a batch dimension, because vLLM batches by itself."""
    if model.backend != "vllm":
        return
    if not model.config.model_transaction_policy.decoupled:
        what, instead = "vLLM's backend wants a decoupled model", "write decoupled: true"
        yield model.problem(what, instead, "model_transaction_policy")
    if model.config.max_batch_size:
        what, instead = "vLLM's backend takes no batch dimension", "write max_batch_size: 0"
        yield model.problem(what, instead, "max_batch_size")


TREES = """\
backend: "fil"
max_batch_size: 8
input { name: "input__0" data_type: TYPE_FP32 dims: [4] }
output { name: "output__0" data_type: TYPE_FP32 dims: [1] }
parameters { key: "model_type" value { string_value: "xgboost_json" } }
parameters { key: "is_classifier" value { string_value: "false" } }
"""


@warning(
    "fil-parameters",
    of=models,
    triton="`x not recognized as a valid serialization format.`, `Required parameter is_classifier not found in "
    "config`, `Required parameter threshold not found in config`; with other tensors, an error to each request",
    fails=TREES.replace("is_classifier", "classifier"),
    passes=TREES,
)
def fil_parameters(model: Model) -> Iterator[Problem]:
    """A model of FIL says what its file and its trees are, batches, and has the tensors that FIL knows."""
    if model.backend != "fil":
        return
    given = {name: value.string_value for name, value in model.config.parameters.items()}
    if (kind := given.get("model_type")) not in FIL_FILES:
        unknown = f"{kind} not recognized as a valid serialization format"
        what, instead = (
            unknown if kind else "model_type is missing",
            f"write one of {', '.join(FIL_FILES)}",
        )
        yield model.problem(what, instead, "parameters", missing=not kind)
    classifies = given.get("output_class") or given.get("is_classifier")
    if classifies not in ("true", "false"):
        what = "Required parameter is_classifier not found in config"
        instead = "write true or false; before 25.09 it is output_class"
        yield model.problem(what, instead, "parameters", missing=not classifies)
    elif classifies == "true" and "threshold" not in given:
        what = "Required parameter threshold not found in config"
        yield model.problem(what, "write 0.5", "parameters", missing=True)
    if not model.config.max_batch_size:
        what, instead = "FIL's backend needs a batch dimension", "write max_batch_size: 1 or more"
        yield model.problem(what, instead, "max_batch_size")
    for side, tensors in (("input", model.config.input), ("output", model.config.output)):
        known, names = f"{side}__0", [tensor.name for tensor in tensors]
        if names and known not in names:
            what = f"FIL's {side} is {known}, not {', '.join(names)}"
            yield model.problem(what, f"name it {known}", (side, 0), "name")
