"""The models of a repository as they are on disk: configs, versions, backends."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped, unused-ignore]
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

from triton_ensemble.check.findings import Finding
from triton_ensemble.check.lines import Lines, Part, lines, strange
from triton_ensemble.server.local_repository import BACKENDS

Config = Any  # model_config_pb2.ModelConfig, which has no type stubs

PLATFORMS = {
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "torch_aoti": "pytorch",
    "tensorflow_savedmodel": "tensorflow",
    "tensorflow_graphdef": "tensorflow",
    "tensorrt_plan": "tensorrt",
    "ensemble": "ensemble",
}
# What Triton's containers have, beside those that a file is enough for.
KNOWN = (*BACKENDS.values(), "dali", "fil", "identity", "repeat", "square", "tensorrtllm", "vllm")
BYTES = {"BOOL": 1, "UINT8": 1, "INT8": 1, "UINT16": 2, "INT16": 2, "FP16": 2, "BF16": 2} | {
    "UINT32": 4,
    "INT32": 4,
    "FP32": 4,
    "UINT64": 8,
    "INT64": 8,
    "FP64": 8,
    "STRING": 4,
}
VERSIONS = 2**63  # they are 64-bit numbers
RESERVED = ("__pycache__", "configs", "initial_state", "warmup")  # folders that are no versions


@dataclass(frozen=True)
class Setting:
    """What a check may know beside the repository."""

    release: str = ""  # of Triton, YY.MM; empty: the newest
    gpu_count: int | None = None
    asks_for_all_outputs: frozenset[str] = frozenset()  # ensembles whose clients do


@dataclass
class Model:
    """A folder of a model repository."""

    folder: Path
    config: Config | None = None  # None: there is none, or it does not parse
    lines: Lines = field(default_factory=lambda: Lines("", 1))

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def path(self) -> Path:
        return self.folder / "config.pbtxt"

    def finding(self, rule: str, what: str, instead: str, *path: Part) -> Finding:
        return Finding(self.path, self.lines.at(*path), rule, what, instead)

    def file(self, *parts: str) -> Path:
        """As Triton joins paths: one that begins with / stays inside the folder."""
        return Path("/".join((str(self.folder), *parts)))

    @cached_property
    def folders(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir())

    @cached_property
    def versions(self) -> list[int]:
        """Those that Triton sees, latest first."""
        found = (version_of(name) for name in self.folders)
        return sorted({each for each in found if each is not None}, reverse=True)

    @cached_property
    def loaded(self) -> list[int]:
        """The versions that the version policy makes available."""
        if self.config is None or not self.config.HasField("version_policy"):
            return self.versions[:1]
        policy = self.config.version_policy
        kind = policy.WhichOneof("policy_choice")
        if kind == "all":
            return self.versions
        if kind == "specific":
            return [version for version in self.versions if version in policy.specific.versions]
        return self.versions[: policy.latest.num_versions if kind else 1]

    @cached_property
    def files(self) -> set[str]:
        """What lies in the version folder by which Triton finds the backend."""
        first = next(iter(self.folders), None)
        return {path.name for path in (self.folder / first).iterdir()} if first else set()

    @cached_property
    def backend(self) -> str:
        """By its own name, `ensemble`, or empty where Triton can't tell."""
        if self.config is None:
            return ""
        if self.config.backend or self.config.platform:
            return str(self.config.backend or PLATFORMS.get(self.config.platform, ""))
        if file := self.config.default_model_filename:
            return BACKENDS.get(file, "")
        by_file = (backend for file, backend in BACKENDS.items() if file in self.files)
        return next(by_file, self.name.partition(".")[2])

    @property
    def is_ensemble(self) -> bool:
        return self.config is not None and (
            self.config.platform == "ensemble" or self.config.HasField("ensemble_scheduling")
        )

    @property
    def steps(self) -> list[Any]:
        return list(self.config.ensemble_scheduling.step) if self.config is not None else []

    def completes(self) -> bool:
        """Whether the backend may find tensors that the config leaves out; of a Python model its code says so."""
        if self.backend == "python":
            codes = [path.read_bytes() for path in self.folder.glob("[0-9]*/*.py")]
            return any(b"auto_complete_config" in code for code in codes)
        return self.backend not in ("ensemble", "pytorch")


def version_of(folder: str) -> int | None:
    """As Triton reads a folder's name: the number that it begins with, unless zeros lead it."""
    found = re.match(r"[ \t-\r]*([+-]?[0-9]+)", folder)
    return int(found[1]) if found and (folder == "0" or folder[0] != "0") else None


def read(folder: Path) -> tuple[Model, Finding | None]:
    """A model, and why its config can't be read."""
    model = Model(folder)
    try:
        text = model.path.read_bytes().decode(errors="replace")
        config = text_format.Parse(text, model_config_pb2.ModelConfig())
    except FileNotFoundError:
        return without_config(model)
    except OSError as error:
        what = f"can't be read: {error.strerror}"
        return model, Finding(model.path, 1, "parse", what, "make it a file")
    except text_format.ParseError as error:
        return model, unparsable(model, error)
    if found := strange(text):
        line, what, instead = found
        return model, Finding(model.path, line, "parse", what, instead)
    model.config = config
    model.lines = lines(text)
    return model, None


def without_config(model: Model) -> tuple[Model, Finding | None]:
    """Triton makes up a config for a folder that has a model file under its usual name."""
    model.config = model_config_pb2.ModelConfig()
    if model.files & BACKENDS.keys() or "." in model.name:
        what = (
            f"{model.name} has no config, which Triton refuses with --disable-auto-complete-config"
        )
        return model, Finding(model.path, 1, "config-made-up", what, "add it")
    model.config = None
    what = f"Invalid model name: Could not determine backend for model '{model.name}' with no backend in model configuration"
    instead = "each folder of a repository must be a model: add its config, or move it away"
    return model, Finding(model.path, 1, "config-missing", what, instead)


def unparsable(model: Model, error: text_format.ParseError) -> Finding:
    what = re.sub(r"^'.*?': (?=[A-Z])", "", re.sub(r"^\d+:\d+ : ", "", str(error))).rstrip(".")
    what = " ".join(what.split())
    unknown = re.search(r'(Message|Enum) type "([\w.]+)" has no .* named "?(\w+)', what)
    instead = (
        spelling(*unknown.groups()) if unknown else "write it as Triton's model_config.proto has it"
    )
    if what.endswith("\ufeff"):
        instead = "save it as UTF-8 without a byte-order mark"
    if not unknown and re.search(r"(Couldn't parse|got|Expected) .*[${]$", what):
        instead = "fill in the placeholder first"
    return Finding(model.path, error.GetLine() or 1, "parse", what, instead)


def spelling(kind: str, of: str, word: str) -> str:
    """The name in Triton's schema that a word was meant to be."""
    pool = model_config_pb2.DESCRIPTOR.pool
    if kind == "Message":
        return nearest(word, pool.FindMessageTypeByName(of).fields_by_name, "take it out")
    names = pool.FindEnumTypeByName(of).values_by_name
    prefixed = f"TYPE_{word.upper().removeprefix('TYPE_')}"
    return (
        f"write {prefixed}"
        if prefixed in names
        else nearest(word, names, f"it has {', '.join(names)}")
    )


def nearest(word: str, choices: Iterable[str], otherwise: str) -> str:
    """`did you mean X?` where one of the choices is near, else the other remedy."""
    found = difflib.get_close_matches(word, list(choices), 1)
    return f"did you mean {found[0]}?" if found else otherwise


def fits(one: Sequence[int], two: Sequence[int]) -> bool:
    """Of dims: -1 fits any."""
    return len(one) == len(two) and all(
        a == b or -1 in (a, b) for a, b in zip(one, two, strict=True)
    )


def row_bytes(tensor: Any) -> int:
    """At least, as strings may be longer."""
    size = BYTES.get(enum_name(tensor, "data_type").removeprefix("TYPE_"), 0)
    return size * math.prod(map(int, tensor.dims))


def unreadable(file: Path) -> str:
    missing = f"failed to open text file for read {file}: No such file or directory"
    return "" if file.is_file() else missing


def enum_name(message: Any, field: str) -> str:
    """Of the value of an enum's field; a number that has no name, as it is."""
    number = getattr(message, field)
    known = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number.get(number)
    return known.name if known else str(number)
