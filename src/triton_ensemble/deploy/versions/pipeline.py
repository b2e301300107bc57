"""The versions in pipeline.yml, and the files of the project that depend on them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from triton_ensemble.check.pipeline.check import read_saved_answers
from triton_ensemble.compile.file import Place, set_values, steps_of
from triton_ensemble.compile.graph import Step
from triton_ensemble.compile.render import File, render
from triton_ensemble.compile.rules import RefusedAnswers, rules
from triton_ensemble.deploy.versions import VersionError
from triton_ensemble.facts.answers import (
    FILE,
    Answers,
    UnreadableAnswers,
    load_yaml,
    read_answers,
)
from triton_ensemble.facts.reading import read_bytes

PIPELINE = "pipeline.yml"


class Pipeline:
    """pipeline.yml of the project in `root`, as `text` has it. Raises VersionError if it can't be read."""

    def __init__(self, root: Path, text: str | None = None) -> None:
        path = root / PIPELINE
        try:
            self.given: Answers = read_answers(path)[0] if text is None else yaml.safe_load(text)
        except UnreadableAnswers as error:
            raise VersionError(f"{PIPELINE}:{error}") from error
        self.root, self._rules = root, rules(root)
        self.text = path.read_bytes().decode() if text is None else text

    def step(self, name: str) -> Answers:
        """Return the step whose model has versions.

        Raise VersionError, with what to write instead, if it is not such a step.
        """
        steps: dict[str, Answers] = {str(step["name"]): step for _, step in steps_of(self.given)}
        if name not in steps:
            known = ", ".join(steps)
            what = "is the ensemble, which does not have versions" if name == self._ensemble else ""
            wrong = f"{name}: {what or 'is not a step'}" if name else "no NAME is given"
            raise VersionError(f"{wrong}; write NAME=one of {known}")
        if why := self._drop_versions(steps[name]):
            raise VersionError(f"step {name}: {why}")
        return steps[name]

    @property
    def _ensemble(self) -> Any:
        return self.answered["graph"]["name"]

    def _drop_versions(self, step: Answers) -> str:
        if "model" in step:
            return f"is served by the model of {step['model']}; write NAME={step['model']}"
        if step.get("backend") == "ensemble":
            inside = ", ".join(str(each["name"]) for each in step["steps"])
            return f"is an ensemble, which has no code of its own; write NAME=one of {inside}"
        if self.given.get("ensemble") is False:
            return (
                "is served without an ensemble, which chooses the version; drop `ensemble: false`"
            )
        if not isinstance(step.get("versions", []), list):
            return (
                f"has `versions: {step['versions']}`; drop it, publish writes the list of versions"
            )
        fused = next(
            (m for m in self.models if step["name"] in self.models[m] and m != step["name"]), ""
        )
        if fused:
            return f"shares the model {fused}; write `fuse: false` there, then publish"
        return ""

    def versions(self, name: str) -> list[int]:
        """Return the versions of a step's model that Triton loads."""
        step = self.step(name)
        return [int(each) for each in step.get("versions") or [self.find_served(name)]]

    def find_served(self, name: str) -> int:
        """Return the version that the ensemble asks for.

        If it asks for the latest, that is the number of the latest.
        """
        step = self.step(name)
        version = int(step.get("version", -1))
        return version if version != -1 else max(step.get("versions") or [1])

    def list_asked(self, name: str) -> set[int]:
        """Return the versions of a model that steps ask for."""
        asking = [
            step for _, step in steps_of(self.given) if name in (step["name"], step.get("model"))
        ]
        latest = self.find_served(name) if len(asking) == 1 else max(self.versions(name))
        said = {int(step.get("version", -1)) for step in asking}
        return {latest if version == -1 else version for version in said}

    def set_versions(self, name: str, versions: Sequence[int], version: int) -> Pipeline:
        """Return a pipeline in which a step has these versions and asks for `version`, like other steps of its model."""
        edits: dict[Place, Any] = {}
        for place, step in steps_of(self.given):
            if step["name"] == name:
                edits |= {(*place, "versions"): sorted(versions)}
            if name in (step["name"], step.get("model")):
                edits |= {(*place, "version"): version}
        try:
            return Pipeline(self.root, set_values(self.text, edits))
        except ValueError as error:
            raise VersionError(str(error)) from error

    @cached_property
    def answered(self) -> Answers:
        """All answers, with `graph`. Raises VersionError with the template's line if it refuses them."""
        try:
            return self._rules.answer(self._kept | self.given)
        except RefusedAnswers as refused:
            raise VersionError(f"{PIPELINE}: {refused}") from refused

    @property
    def _kept(self) -> Answers:
        return read_saved_answers(self.root / PIPELINE, self._rules)

    @property
    def _made(self) -> Answers:
        return dict(load_yaml(read_bytes(self.root / FILE)))

    @property
    def models(self) -> dict[str, list[str]]:
        """The names of the steps that each model serves."""
        models: list[Step] = self.answered["graph"]["models"]
        return {m["name"]: [s["name"] for s in m.get("steps", [m])] for m in models}

    @property
    def owned(self) -> list[str]:
        """The files that the project owns."""
        return [*self._made["owned"]]

    def files(self) -> dict[str, File]:
        """Return the managed files as this pipeline makes them, by their paths in the project."""
        try:
            return render(self._rules, self._kept | self.given, self._made)
        except RefusedAnswers as refused:
            raise VersionError(f"{PIPELINE}: {refused}") from refused
