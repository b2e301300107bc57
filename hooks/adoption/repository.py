"""An existing model repository: its folders, its configs, and what Triton refuses of them before it looks at the wiring."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped]
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

from hooks.adoption.refusal import Refused, catalog, config_of, nearest

Config = Any  # model_config_pb2.ModelConfig, which has no type stubs
Models = dict[str, Config]

PLATFORMS = {
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "tensorflow_savedmodel": "tensorflow",
    "tensorrt_plan": "tensorrt",
}
# Platforms that the grammar has no backend for; and one that stands for a text that is filled in later.
OTHER_PLATFORM = re.compile(r"ensemble|tensorflow_graphdef|torch_aoti|.*\$\{.*")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def backend_of(config: Config) -> str:
    """The backend by its own name, `ensemble`, or `auto` where Triton finds it by the model file."""
    if config.platform == "ensemble":
        return "ensemble"
    return config.backend or PLATFORMS.get(config.platform, "auto")


def versions(folder: Path) -> list[int]:
    """The versions that Triton sees, latest first."""
    names = [path.name for path in folder.iterdir() if path.is_dir()]
    return sorted((int(name) for name in names if re.fullmatch(r"0|[1-9]\d*", name)), reverse=True)


def loaded(config: Config, folder: Path) -> list[int]:
    """The versions that the model's version policy makes available."""
    found = versions(folder)
    kind = config.version_policy.WhichOneof("policy_choice")
    if kind == "all":
        return found
    if kind == "specific":
        return [version for version in found if version in config.version_policy.specific.versions]
    return found[: config.version_policy.latest.num_versions or 1]


def load(repository: Path) -> Models:
    """The config of each model, by its folder."""
    if not repository.is_dir():
        raise Refused(str(repository), "no such directory", "name a model repository")
    return {folder.name: read(folder) for folder in sorted(repository.iterdir()) if folder.is_dir()}


def read(folder: Path) -> Config:
    where = config_of(folder.name)
    if not NAME.fullmatch(folder.name):
        raise Refused(
            where,
            "Triton refuses the folder's name",
            "write letters, digits, `_`, `-` and `.` only, also in `name` and in the ensemble",
        )
    config = parsed(folder)
    if config.name not in ("", folder.name):
        raise Refused(
            where,
            f"unexpected directory name '{folder.name}' for model '{config.name}', directory name must equal model name",
            f'write name: "{folder.name}", or rename the folder',
        )
    check_versions(config, folder)
    check_platform(config, folder.name)
    check_tensors(config, folder.name)
    check_warmup(config, folder.name)
    return config


def parsed(folder: Path) -> Config:
    config = model_config_pb2.ModelConfig()
    path = folder / "config.pbtxt"
    if path.is_file():
        try:
            return text_format.Parse(path.read_text(encoding="utf-8"), config)
        except UnicodeDecodeError:
            raise Refused(config_of(folder.name), "is not UTF-8", "save it as UTF-8") from None
        except text_format.ParseError as error:
            raise unparsable(folder.name, error) from None
    if not any(model_files(folder)):
        raise Refused(
            config_of(folder.name),
            "is missing, and each folder of a model repository must be a model",
            "add it, or move the folder elsewhere",
        )
    return config


def model_files(folder: Path) -> Iterator[Path]:
    """The files by which Triton tells the backend of a model without a config."""
    for name in {backend.get("file") for backend in catalog("backends").values()} - {None}:
        yield from folder.glob(f"[0-9]*/{name}")


def unparsable(folder: str, error: text_format.ParseError) -> Refused:
    what = re.sub(r"^'.*?': (?=[A-Z])", "", str(error).partition(" : ")[2]).rstrip(".")
    unknown = re.search(r'(Message|Enum) type "([\w.]+)" has no .* named "?(\w+)', what)
    instead = "write it as Triton's model_config.proto has it"
    if unknown:
        instead = spelling(*unknown.groups())
    elif re.search(r"(Couldn't parse|got|Expected) .*[${]$", what):
        instead = "fill in the placeholder first"
    return Refused(f"{config_of(folder)}:{error.GetLine()}", what, instead)


def spelling(kind: str, of: str, word: str) -> str:
    """The name in Triton's schema that a word was meant to be."""
    pool = model_config_pb2.DESCRIPTOR.pool
    if kind == "Message":
        return nearest(word, pool.FindMessageTypeByName(of).fields_by_name, "take it out")
    names = pool.FindEnumTypeByName(of).values_by_name
    bare = word.upper().removeprefix("TYPE_")
    alias = f"TYPE_{catalog('aliases')['types'].get(bare, bare)}"
    return (
        f"write {alias}" if alias in names else nearest(word, names, f"it has {', '.join(names)}")
    )


def check_versions(config: Config, folder: Path) -> None:
    if not loaded(config, folder):
        raise Refused(
            config_of(folder.name),
            f"at least one version must be available under the version policy of model '{folder.name}'",
            f"add the folder {folder.name}/1 (not 01, not v1)",
        )


def check_platform(config: Config, folder: str) -> None:
    known = config.platform in PLATFORMS or OTHER_PLATFORM.fullmatch(config.platform)
    if config.backend == "ensemble" or (config.platform == "ensemble" and config.backend):
        raise Refused(
            config_of(folder),
            f"Ensemble model '{folder}' must have platform type 'ensemble' and empty backend type",
            'write platform: "ensemble" and no backend',
        )
    if config.platform and not known and not config.backend and "." not in folder:
        raise Refused(
            config_of(folder),
            f"Could not determine backend for model '{folder}', as \"{config.platform}\" is no platform",
            f'write backend: "{config.platform}" instead of platform',
        )


def check_tensors(config: Config, folder: str) -> None:
    """What a table of tensors by name could not show."""
    for side, tensors in (("input", config.input), ("output", config.output)):
        seen: set[str] = set()
        for tensor in tensors:
            if not tensor.name or not tensor.data_type:
                missing = "data_type" if tensor.name else "name"
                raise Refused(
                    config_of(folder),
                    f"model {side} '{tensor.name}' must specify '{missing}'",
                    f"add its {missing}",
                )
            if tensor.name in seen:
                raise Refused(
                    config_of(folder), f"{side} {tensor.name} is declared twice", "drop one"
                )
            seen.add(tensor.name)


def check_warmup(config: Config, folder: str) -> None:
    """A warmup request must be one that the model takes."""
    names = {tensor.name for tensor in config.input}
    needed = {tensor.name for tensor in config.input if not tensor.optional}
    for sample in config.model_warmup if names else ():
        for name in sorted(sample.inputs.keys() - names):
            what = f"model_warmup '{sample.name}' has input '{name}', which the model has not"
            raise Refused(config_of(folder), what, nearest(name, names, "take it out"))
        for name in sorted(needed - sample.inputs.keys()):
            what = f"model_warmup '{sample.name}' lacks the required input '{name}'"
            raise Refused(config_of(folder), what, "add it")
