"""The differences between projects: the facts of `vendor/project.json`, which the template renders from the answers."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from triton_ensemble.adapter.typed import MissingField, read_typed
from triton_ensemble.facts.reading import (
    MODEL_BYTES,
    is_outside,
    read_bytes,
    read_json,
)
from triton_ensemble.facts.terminal import OneLine

FILE = Path("vendor", "project.json")
STAGE = "STAGE"  # the environment variable that names a stage of the pipeline, for commands and in the container
CONFLICTS = ".apply/conflicts"  # rendered files whose owner changed the same lines
PROBE = "probe"  # the sample that health checks send, if there is one
STUB = "stub"  # the key of a sample that the template made up
STUB_MARK = "# A stub: "  # begins a line of a step or a script that the template made up, until its owner deletes it


class ProjectError(OneLine, RuntimeError):
    """Raised if a folder is not a generated project, or its facts are damaged.

    The line has the place, what is wrong and what to do.
    """


@dataclass(frozen=True)
class Input:
    """An input of the ensemble, as clients send it."""

    name: str
    datatype: str  # of the protocol: texts are BYTES
    dims: tuple[int, ...]  # of a request that each step takes, without the batch dimension
    optional: bool = False

    @property
    def is_one_text(self) -> bool:
        """Whether a row is a single text, in whose place a request may have the content of a file."""
        return self.datatype == "BYTES" and self.dims == (1,)


@dataclass(frozen=True)
class Adopted:
    """The files that an adopted model's folder in models/ must have."""

    file: str  # that the backend loads from a version folder; empty: not known
    versions: tuple[int, ...]  # that its config names; empty: the latest
    script: str  # module of models/ that may make the model file
    data: tuple[
        str, ...
    ]  # labels, warmup data and initial states, by their paths beside the config


@dataclass(frozen=True)
class Facts:
    """The facts that differ between projects, read from `vendor/project.json`."""

    ensemble: str  # the model that clients call, whether it is an ensemble or one model
    package: str  # of the client in src/
    batched: bool  # tensors have a batch dimension
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    decoupled: bool
    sequential: bool
    bf16: bool  # the local Triton can't run it
    all_outputs: bool  # a request may not ask for a part of the outputs
    cached_models: tuple[str, ...]
    batching_models: tuple[str, ...]
    models: tuple[str, ...]  # folders of the model repository
    step_modules: dict[str, list[str]]  # modules of steps/ by the version folder that serves them
    adopted: dict[str, Adopted]  # models that are served as they are in models/
    requirements: tuple[str, ...]  # packages that Python steps declare
    model_files: dict[str, str]  # scripts of models/ by the model file that each makes
    model_data: dict[
        str, str
    ]  # files of models/ by the path next to a config that they are copied to
    stand_ins: tuple[str, ...]  # backends without a form for this machine: they answer zeros here
    undeclared: dict[
        str, str
    ]  # config.pbtxt text of inputs and outputs that only the model file declares
    release: str  # of Triton's container
    engines: dict[str, list[str]]  # flags of trtexec by the model whose engines it builds
    stages: tuple[str, ...]  # that pipeline.yml declares
    container_name: str  # of its image and compose project, before the checkout's number
    cluster_name: str  # of its images in deploy/, before their suffixes
    images: dict[str, str]  # of others that it uses, by the variable that names another


@dataclass(frozen=True)
class Project(Facts):
    """A generated project: its root folder and the facts about its pipeline."""

    root: Path

    @property
    def repository(self) -> Path:
        """The model repository that Triton loads."""
        return self.root / "model_repository"

    @property
    def samples(self) -> Path:
        """The folder of sample requests."""
        return self.root / "samples"

    def sample_files(self) -> list[Path]:
        """Return the files of sample requests, sorted by name, without stubs."""
        return [path for path in sorted(self.samples.glob("*.json")) if not is_stub(path)]

    def probe_file(self) -> Path | None:
        """Return the sample that health checks send: `probe.json`, or else the first. Return None if all are stubs."""
        files = self.sample_files()
        return next((path for path in files if path.stem == PROBE), files[0] if files else None)

    def sample_stubs(self) -> list[Path]:
        """Return the files of sample requests that the template made up, sorted by name."""
        return [path for path in sorted(self.samples.glob("*.json")) if is_stub(path)]

    def sample_command(self) -> str:
        """Return the command that records a sample, with the values of its inputs to fill in."""
        words = [f"{each.name}={'@FILE' if each.is_one_text else 'JSON'}" for each in self.inputs]
        options = ["--"] * any(word.startswith("-") for word in words)
        quoted = " ".join(
            shlex.quote(word) if re.search(r"[^\w=@./-]", word) else word
            for word in options + words
        ).replace("$", "$$")  # which `make` would replace
        argument = shlex.quote(quoted) if re.search(r'["$`\\]', quoted) else f'"{quoted}"'
        return f"make sample ARGS={argument} NAME=one"

    @classmethod
    def load(cls, root: Path) -> Project:
        """Read the facts of the project in `root`, or raise ProjectError if they are missing or damaged."""
        path = root.resolve() / FILE
        try:
            facts = read_typed(read_json(path), Facts)
        except FileNotFoundError:
            raise ProjectError(
                f"{path}: not found; run this in the folder of a generated project"
            ) from None
        except MissingField as error:
            raise ProjectError(f"{path}: {error}; run: make update") from error
        except (OSError, ValueError) as error:
            raise ProjectError(f"{path}: {error}; restore it: git checkout {FILE}") from error
        return cls(root=root.resolve(), **vars(facts))

    def check_stage(self, stage: str) -> None:
        """Raise ProjectError for a name that is not a stage of the pipeline. The empty name means no stage."""
        if stage and stage not in self.stages:
            known = ", ".join(self.stages)
            instead = f"write one of {known}" if known else "declare it in `stages`"
            raise ProjectError(f"pipeline.yml has no stage {stage}; {instead}")

    def check_extra(self, name: str) -> None:
        """Raise ProjectError if `extras` does not have one that a command needs."""
        from triton_ensemble.facts import catalog

        extra = catalog.table("extras").get(name)
        if extra and not (self.root / extra["paths"][0]).exists():
            what = f"extras does not have {name}; add it, and run the command again"
            raise ProjectError(f"pipeline.yml: {what}")

    @classmethod
    def find(cls, repository: Path) -> Project | None:
        """Return the project around a model repository, or None outside a project."""
        root = repository.resolve().parent
        return cls.load(root) if (root / FILE).is_file() else None


def read_named_file(folder: Path, name: str) -> bytes:
    """Return the content of a file that a sample in a folder names.

    Raise ValueError if it is not in the project.
    """
    if _leaves_project(folder / name, folder):
        raise ValueError(f"{name} is not a file of the project; copy it to {folder.name}/")
    return read_bytes(folder / name, MODEL_BYTES)


def list_foreign(paths: Iterable[Path], folder: Path) -> list[str]:
    """Return a line for each link among the files in a folder of a project that leads out of the project."""
    return [
        f"{path}: is a link out of the project, to {os.path.realpath(path)}; put a copy in its place"
        for path in paths
        if path.is_symlink() and path.exists() and _leaves_project(path, folder)
    ]


def _leaves_project(path: Path, folder: Path) -> bool:
    """Return whether a path leads out of the project that a folder is in.

    If the folder is not in a project, return whether the path leads out of the folder.
    """
    ways = (
        Path(os.path.abspath(folder)),
        Path(os.path.realpath(folder)),
    )  # may be a link, as in candidates
    roots = [root for way in ways for root in _find_root(way)]
    return is_outside(path, *(roots or ways))


def _find_root(folder: Path) -> list[Path]:
    return [each for each in (folder, *folder.parents) if (each / FILE).is_file()][:1]


def is_stub(sample: Path) -> bool:
    """Return whether the template made up a sample. A file that is not JSON is not a stub."""
    try:
        content = read_json(sample)
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and STUB in content


def is_stub_code(path: Path) -> bool:
    """Return whether a step or a script of a model file is as the template made it up."""
    return path.is_file() and STUB_MARK in path.read_text(errors="replace")[:500]
