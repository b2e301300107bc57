"""What all peers serve: the rows that are asked, and the generated projects whose steps and model file they use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.works import (
    CORES,
    FUSED,
    NO_DELAY,
    SEPARATE,
    Answers,
    jpeg,
    model_file,
    pipeline,
    project,
)

HERE = Path(__file__).parent
Answer = dict[str, list[Any]]  # by output, the numbers or texts of a row
# Of our variants: instances of each step, and what else is answered.
VARIANTS: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {
    "apart": ((1, CORES, 1), SEPARATE),
    "fused": ((CORES, CORES, CORES), {**FUSED, **NO_DELAY}),
    "one model": ((CORES, CORES, CORES), {**FUSED, **NO_DELAY, "ensemble": False}),
}


class Work(NamedTuple):
    """`kind` is the folder in pipelines/ with its functions."""

    name: str
    kind: str
    input: str
    outputs: tuple[str, ...]
    rows: list[bytes]


def works() -> dict[str, Work]:
    """Return all works by name. Each text is asked in turn, and the same image again and again."""
    images = ("images", "IMAGE", ("LABEL", "SCORE"))
    texts = (HERE / "texts.txt").read_bytes().splitlines()
    found = [Work(name, *images, [jpeg(pipeline(name, 1, 1, 1))]) for name in ("digits", "photo")]
    found.append(Work("texts", "texts", "TEXT", ("EMBEDDING",), texts))
    return {work.name: work for work in found}


class Projects:
    """The generated projects of a work, each made when it is first asked for."""

    def __init__(self, template: str, work: Work, folder: Path) -> None:
        self.work = work
        self._template, self._folder = template, folder

    def answers(self, variant: str) -> Answers:
        instances, fields = VARIANTS[variant]
        return {**pipeline(self.work.name, *instances, **fields), "extras": ["gateway"]}

    def project(self, variant: str = "apart") -> Path:
        """Return the folder of a variant."""
        folder = self._folder / variant.replace(" ", "-")
        if not folder.exists():
            project(self._template, self.answers(variant), folder)
        return folder

    def model_file(self) -> Path:
        """Return the model file, for who serves it without Triton."""
        return self.project() / "model_repository" / model_file(self.answers("apart"))


def plain(outputs: dict[str, Any]) -> Answer:
    """Return an answer as all are compared: however a peer nests and encodes them, the same numbers and texts."""
    return {name: [_plain(value) for value in np.ravel(rows)] for name, rows in outputs.items()}


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else getattr(value, "item", lambda: value)()


def differs(answer: Answer, expected: Answer) -> str:
    """Return what is not the same, or nothing. Sums in another order may differ in the fifth digit."""
    if answer.keys() != expected.keys():
        return f"has {', '.join(answer)} and not {', '.join(expected)}"
    for name, values in expected.items():
        got = answer[name]
        numbers = isinstance(values[0], float)
        if not (np.allclose(got, values, atol=1e-4) if numbers else got == values):
            return f"{name} is {json.dumps(got)[:80]} and not {json.dumps(values)[:80]}"
    return ""
