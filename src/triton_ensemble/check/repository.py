"""A model repository as the check sees it, and what its rules may be about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from triton_ensemble.check.calls import Call, iter_calls
from triton_ensemble.check.ensemble import Ensemble, is_decoupled
from triton_ensemble.check.finding import Finding
from triton_ensemble.check.python_code import PythonFile, python_files
from triton_ensemble.check.step_code import StepCall, step_calls
from triton_ensemble.facts.answers import Answers, answers_of
from triton_ensemble.facts.config import Model, UnreadModel, read_models


@dataclass
class Repository:
    """The models of a folder, and of the project around it what it was made from."""

    folder: Path
    folders: dict[str, Model | UnreadModel]
    answers: Answers  # empty: it is not a project's
    release: str = ""  # of the Triton to serve it, YY.MM; empty: the newest
    project: Path | None = None  # whose files its owner has; None: the folder around the repository
    findings: list[Finding] = field(default_factory=list)  # of the rules that were asked before
    is_own: bool = False  # the caller's project, whose team's rules may run
    stage: str = ""  # of the project, whose configs these are; empty: the usual ones

    @classmethod
    def read(cls, folder: Path, release: str = "", stage: str = "") -> Repository:
        """Read a repository, as it is in a stage. Raise OSError for a folder that can't be read."""
        answers = answers_of(folder)
        release = release or str(answers.get("triton_release", ""))
        return cls(folder, read_models(folder, stage), answers, release, stage=stage)

    @cached_property
    def models(self) -> dict[str, Model]:
        """The models whose configs could be read, by name."""
        return {name: each for name, each in self.folders.items() if isinstance(each, Model)}

    @cached_property
    def ensembles(self) -> list[Ensemble]:
        """The ensembles among the models."""
        served = self.models.values()
        return [Ensemble(model, self.folders) for model in served if model.is_ensemble]

    @cached_property
    def python_files(self) -> list[PythonFile]:
        """The model.py of each loaded version of each Python model, parsed."""
        return [file for model in iter_backend_models(self) for file in python_files(model)]

    @cached_property
    def step_calls(self) -> list[StepCall]:
        """The calls of the steps that loaded versions of Python models serve, their code parsed."""
        return [
            call for model in iter_backend_models(self) for call in step_calls(model, self.owned)
        ]

    @cached_property
    def bls_calls(self) -> list[Call]:
        """The calls of other models that the code of Python models always makes."""
        return [call for file in self.python_files for call in iter_calls(file)]

    @property
    def root(self) -> Path:
        """The folder around the repository: of a generated project, its root."""
        return self.folder.parent

    @property
    def owned(self) -> Path:
        """The folder of the owner's steps, samples and scripts."""
        return self.project or self.root

    @property
    def gpu_count(self) -> int | None:
        """The number of the server's GPUs, or None if it is not known."""
        there: Answers = (self.answers.get("stages") or {}).get(self.stage, {})
        count: int | None = {**self.answers, **there}.get("gpu_count")
        return count

    @cached_property
    def asks_for_all_outputs(self) -> set[str]:
        """The ensembles whose clients always ask for all outputs, as the project says."""
        return set(_list_asked(self.answers))


@dataclass(frozen=True)
class Served:
    """A model and the repository that it is in, for rules that need to know both."""

    model: Model
    repository: Repository

    @property
    def is_decoupled(self) -> bool:
        """Whether the model may answer a request with any number of responses."""
        return is_decoupled(self.model.name, self.repository.folders)


def iter_folders(repository: Repository) -> Iterator[Path]:
    """Iterate over the repository's folder and its models' folders."""
    yield repository.folder
    yield from (each.folder for each in repository.folders.values())


def unread_models(repository: Repository) -> Iterator[UnreadModel]:
    """Iterate over the folders whose configs can't be read, or are missing."""
    return (each for each in repository.folders.values() if isinstance(each, UnreadModel))


def models(repository: Repository) -> Iterable[Model]:
    """Iterate over the models whose configs could be read."""
    return repository.models.values()


def iter_served_models(repository: Repository) -> Iterator[Served]:
    """Iterate over the same models, each with the repository."""
    return (Served(model, repository) for model in repository.models.values())


def iter_backend_models(repository: Repository) -> Iterator[Model]:
    """Iterate over the models that a backend runs: all but ensembles."""
    return (model for model in repository.models.values() if not model.is_ensemble)


def ensembles(repository: Repository) -> list[Ensemble]:
    """Return the ensembles."""
    return repository.ensembles


def itself(repository: Repository) -> list[Repository]:
    """Return the repository itself."""
    return [repository]


def projects(repository: Repository) -> list[Repository]:
    """Return a list of the repository itself if it is a generated project's, or an empty list."""
    return [repository] if repository.answers else []


def _list_asked(answers: Answers) -> Iterator[str]:
    ensemble = answers.get("ensemble")
    if isinstance(ensemble, dict) and ensemble.get("all_outputs"):
        yield str(answers.get("ensemble_name", answers.get("name")))
    for step in answers.get("steps") or ():
        if "steps" in step:
            yield from _list_asked(step)
