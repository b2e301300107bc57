"""The models of a repository as they are on disk: their configs, versions and backends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from triton_ensemble.facts import catalog
from triton_ensemble.facts.config.fields import Field, Part, fields_of
from triton_ensemble.facts.config.message import ModelConfig, new_config
from triton_ensemble.facts.config.problem import Problem
from triton_ensemble.facts.config.syntax import ConfigSyntaxError, parse, readable
from triton_ensemble.facts.config.versions import version_of
from triton_ensemble.facts.reading import is_outside, read_codes, read_text

CONFIG = "config.pbtxt"
NO_BACKEND = (
    "Invalid model name: Could not determine backend for model '{}' "
    "with no backend in model configuration"
)


@dataclass(frozen=True)
class UnreadModel:
    """A folder whose config can't be read, or that lacks a config and is not a model without one."""

    folder: Path
    problem: Problem
    has_config: bool = True

    @property
    def path(self) -> Path:
        """The path of the config."""
        return self.folder / CONFIG


@dataclass
class Model:
    """A model of a repository: its folder, its parsed config, and the lines of the config's fields."""

    folder: Path
    config: ModelConfig
    fields: Field
    has_config: bool = True  # else Triton makes one up by the model file
    assumed_versions: tuple[int, ...] = ()  # where git has dropped the empty version folders
    stage: str = ""  # whose config this is; empty: the model's usual one

    @property
    def name(self) -> str:
        """The folder's name, by which Triton serves the model."""
        return self.folder.name

    @property
    def path(self) -> Path:
        """The path of the config."""
        return config_file(self.folder, self.stage)

    def problem(self, what: str, instead: str, *place: Part, missing: bool = False) -> Problem:
        """Return a problem at a field of the config."""
        return Problem(self.path, self.fields.line_of(*place), what, instead, missing)

    def file(self, *parts: str) -> Path:
        """Join a path as Triton does: a path that begins with / stays inside the folder."""
        return Path("/".join((str(self.folder), *parts)))

    def is_foreign(self, file: Path) -> bool:
        """Return whether a file is out of the repository. The model's folder itself may be a link."""
        return is_outside(file, self.folder, self.folder.parent)

    @cached_property
    def folders(self) -> list[str]:
        """The names of the folders inside, sorted."""
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir())

    @cached_property
    def versions(self) -> list[int]:
        """The versions that Triton sees, latest first."""
        versions = (version_of(name) for name in self.folders)
        present = {each for each in versions if each is not None}
        return sorted(present or self.assumed_versions, reverse=True)

    @cached_property
    def loaded(self) -> list[int]:
        """The versions that the version policy makes available, latest first."""
        policy = self.config.version_policy
        kind = policy.WhichOneof("policy_choice")
        if kind == "all":
            return self.versions
        if kind == "specific":
            return [version for version in self.versions if version in policy.specific.versions]
        return self.versions[: policy.latest.num_versions if kind else 1]

    @cached_property
    def files(self) -> set[str]:
        """The folder's names by which Triton finds the backend: the first name, even if it is not a version."""
        first = next(iter(self.folders), None)
        return {path.name for path in (self.folder / first).iterdir()} if first else set()

    @cached_property
    def backend(self) -> str:
        """The backend by its own name, `ensemble`, or an empty text if Triton can't find one."""
        if self.config.backend or self.config.platform:
            platforms = catalog.read_backends_by_platform()
            return str(self.config.backend or platforms.get(self.config.platform, ""))
        files = catalog.read_backends_by_file()
        if file := self.config.default_model_filename:
            return files.get(file, "")
        by_file = (backend for file, backend in files.items() if file in self.files)
        return next(by_file, self.name.partition(".")[2])

    @property
    def is_ensemble(self) -> bool:
        """Whether the config says that it is an ensemble, by its platform or its scheduling."""
        scheduled: bool = self.config.HasField("ensemble_scheduling")
        return scheduled or self.config.platform == "ensemble"

    @property
    def steps(self) -> list[Any]:
        """The steps of an ensemble, which other models do not have."""
        return list(self.config.ensemble_scheduling.step)

    @cached_property
    def completes_config(self) -> bool:
        """Whether the backend, or the code of a Python model, may add tensors that the config leaves out."""
        if self.backend == "python":
            codes = read_codes(self.folder.glob("[0-9]*/*.py"))
            return any(b"auto_complete_config" in code for code in codes)
        known = catalog.backends().get(self.backend)
        return not (known and known.must_declare)


def config_file(folder: Path, stage: str) -> Path:
    """Return the config of a model in a stage: the file that Triton's `--model-config-name` selects."""
    return folder / "configs" / f"{stage}.pbtxt" if stage else folder / CONFIG


def read_models(repository: Path, stage: str = "") -> dict[str, Model | UnreadModel]:
    """Read each folder of a repository, by its name, with its config in a stage.

    Raise OSError if a folder can't be read.
    """
    folders = sorted(path for path in repository.iterdir() if path.is_dir())
    return {folder.name: read_model(folder, stage) for folder in folders}


def read_model(folder: Path, stage: str = "") -> Model | UnreadModel:
    """Read a model's config, or raise OSError if the folder can't be read."""
    own = stage if config_file(folder, stage).exists() else ""
    path = config_file(folder, own)
    if is_outside(path, folder, folder.parent):
        what = "can't be read: is a link out of the repository"
        return UnreadModel(folder, Problem(path, 1, what, "copy the file there"))
    try:
        text = readable(read_text(path))
        return Model(folder, parse(text), fields_of(text), stage=own)
    except FileNotFoundError:
        return _make_config(folder)
    except OSError as error:
        what = f"can't be read: {error.strerror}"
        return UnreadModel(folder, Problem(path, 1, what, "make it a text file"))
    except ConfigSyntaxError as error:
        return UnreadModel(folder, Problem(path, error.line, error.what, error.instead))


def _make_config(folder: Path) -> Model | UnreadModel:
    """Make up the config of a folder that has a model file under its usual name, as Triton does."""
    model = Model(folder, new_config(), Field("", 1), has_config=False)
    if model.files & catalog.read_backends_by_file().keys() or "." in model.name:
        return model
    others = sorted(path.name for path in folder.glob("*pbtxt*") if path.is_file())
    instead = "each folder of a repository must be a model: add its config, or move it away"
    if others:
        instead = f"its config must be named {CONFIG}: fill in {others[0]} and rename it"
    problem = model.problem(NO_BACKEND.format(folder.name), instead)
    return UnreadModel(folder, problem, has_config=False)
