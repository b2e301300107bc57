"""Recordings of a project's traffic, which `runtime.recorder` of its client has written."""

from __future__ import annotations

import argparse
import json
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.facts.client import Array, Arrays, package
from triton_ensemble.facts.project import Project
from triton_ensemble.facts.reading import MODEL_BYTES, read_bytes

FOLDER = "recordings"
DAMAGED = (KeyError, OSError, RecursionError, TypeError, ValueError, struct.error)


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Declare the folder of recordings."""
    parser.add_argument("--from", dest="folder", default=FOLDER, help=f"default: {FOLDER}")


@dataclass(frozen=True)
class Sent:
    """A request with its responses, and its place if it is a part of a sequence."""

    name: str
    inputs: Arrays
    answers: list[Arrays]
    sequence: int = 0
    number: int = 0
    end: bool = True


Call = list[Sent]  # one request, or those of a sequence in order


class Recordings:
    """The recordings in a folder, and how many are left out for each reason."""

    def __init__(self, project: Project, folder: Path) -> None:
        """Raise ValueError if there are no recordings."""
        self.project, self.files = project, sorted(folder.glob("*.exchange"))
        self.left_out: Counter[str] = Counter()
        if not self.files:
            how = "make record makes some, and so does a client with TRITON_RECORD=FOLDER"
            raise ValueError(f"{folder}: has no recordings; {how}")

    def calls(self) -> Iterator[Call]:
        """Yield what can be sent again, in the order of the recordings. A sequence comes at its end."""
        begun: dict[int, Call] = {}
        for path in self.files:
            try:
                sent = self._read(path)
            except ValueError as error:
                self.left_out[str(error)] += 1
                continue
            if not sent.number:
                self._drop(begun.pop(sent.sequence, []))
            call = begun.setdefault(sent.sequence, [])
            call.append(sent)
            if sent.end:
                del begun[sent.sequence]
                if [each.number for each in call] == [*range(len(call))]:
                    yield call
                else:
                    self._drop(call)
        for call in begun.values():
            self._drop(call)

    def _drop(self, call: Call) -> None:
        if call:
            self.left_out["of a sequence that is not recorded as a whole"] += len(call)

    def _read(self, path: Path) -> Sent:
        """Read a file, or raise ValueError if its request can't be sent to this pipeline."""
        try:
            head, _, rest = read_bytes(path, MODEL_BYTES).partition(b"\n")
            about, view, end = json.loads(head), memoryview(rest), 0
            sides: list[Arrays] = []
            for described in about["sides"]:
                sides.append({})
                for name, datatype, shape, size in described:
                    start, end = end, end + size
                    sides[-1][name] = self._decode(datatype, view[start:end], shape)
            model, private, place = about["model"], about["private"], about["sequence"]
            inputs, *answers = sides[: len(sides) * (end == len(rest))]
        except (*DAMAGED, InferenceServerException):
            raise ValueError("cut off, or not a recording") from None
        if model != self.project.ensemble:
            raise ValueError(f"of the pipeline {model}, not of {self.project.ensemble}")
        if private:
            raise ValueError(f"without {', '.join(private)}, which is private and not recorded")
        inputs = package(self.project, "runtime.batches").arrays(inputs)
        return Sent(path.name, inputs, answers, *place)

    def _decode(self, datatype: str, content: memoryview, shape: list[int]) -> Array:
        array: Array = package(self.project, "runtime.bodies").decode_tensor(
            datatype, content, shape
        )
        return array

    def report(self) -> Iterator[str]:
        """Yield a line for each reason."""
        for reason, count in self.left_out.most_common():
            yield f"left out: {count} {reason}"
