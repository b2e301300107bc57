"""Send recorded requests to another server, and compare its responses with the recorded ones.

    make replay AGAINST=http://host:8000 FROM=recordings

The comparison is that of golden answers, with the tolerances of tests/golden.json. The command prints what
differs and by how much, and returns 1 if anything does. The server may have a new model, another release of
Triton or a GPU. If it needs a token, set TOKEN, which is sent as `Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from triton_ensemble.facts.client import Array, Arrays, package
from triton_ensemble.facts.project import Project
from triton_ensemble.facts.terminal import escape_line
from triton_ensemble.testing import golden
from triton_ensemble.testing.compare import Tolerances, differences
from triton_ensemble.testing.recordings import Call, Recordings, add_folder

LINES = 10  # differences that are printed without --all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the server, the folder, and whether to print all differences."""
    form = "the server: http://host:8000, or grpc://host:8001"
    parser.add_argument("--against", metavar="URL", help=form)
    add_folder(parser)
    parser.add_argument("--all", action="store_true", help=f"print all differences, not {LINES}")


def run(arguments: argparse.Namespace) -> int:
    """Print what differs. Return 1 if anything does or the server does not answer, 2 if none is given."""
    project = Project.load(Path.cwd())
    own = package(project)
    if not arguments.against:
        print("replay: against which server? Write AGAINST=http://HOST:8000", file=sys.stderr)
        return 2
    try:
        replay = Replay(Recordings(project, Path(arguments.folder)), golden.tolerances(project))
        token = os.environ.get("TOKEN")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        with own.Client(arguments.against, headers=headers, record="") as client:
            if not client.ready():
                what = f"does not answer, or does not serve {project.ensemble}"
                raise ValueError(f"{arguments.against}: {what}")
            lines = list(replay.run(client))
    except (own.InferenceError, OSError, ValueError) as error:
        print(escape_line(f"replay: {error}"), file=sys.stderr)
        return 1
    if (more := len(lines) - LINES) > 0 and not arguments.all:
        lines[LINES:] = [f"... and {more} more lines; ARGS=--all prints them"]
    print(*map(escape_line, [*lines, *replay.report()]), sep="\n")
    return 1 if replay.differing or not replay.sent else 0


def _measure(have: Array | None, want: Array) -> float:
    """Return the largest difference of two arrays, 0 if they are not numbers of one shape."""
    if have is None or have.shape != want.shape or object in (have.dtype, want.dtype):
        return 0.0
    with np.errstate(all="ignore"):
        apart = np.abs(np.subtract(have, want, dtype=np.float64))
    return float(apart[np.isfinite(apart)].max(initial=0))


class Replay:
    """Recordings that are sent again, and how many of them differ."""

    def __init__(self, recordings: Recordings, tolerances: Tolerances) -> None:
        self._recordings, self._tolerances = recordings, tolerances
        self.sent = self.differing = 0
        self._compared: Counter[str] = Counter()  # by output, as the others
        self._differing: Counter[str] = Counter()
        self._largest: dict[str, float] = defaultdict(float)

    def run(self, client: Any) -> Iterator[str]:
        """Send each request, and yield a line for each difference.

        Raise InferenceError if the server does not answer any more.
        """
        own = package(self._recordings.project)
        for call in self._recordings.calls():
            self.sent += 1
            try:
                lines = self._compare(call, send(self._recordings.project, client, call))
            except (own.Unavailable, own.DeadlineExceeded):
                raise
            except own.InferenceError as error:
                lines = [f"fails: {error}"]
            self.differing += bool(lines)
            yield from (f"{call[0].name}: {line}" for line in lines)

    def _compare(self, call: Call, answers: Sequence[Arrays]) -> list[str]:
        wanted = [answer for sent in call for answer in sent.answers]
        lines = []
        if len(answers) != len(wanted):
            lines.append(f"expected {len(wanted)} responses, got {len(answers)}")
        for have, want in zip(answers, wanted, strict=False):
            found = differences(have, want, self._tolerances)
            lines += found.values()
            for name, values in want.items():
                self._compared[name] += 1
                self._differing[name] += name in found
                apart = _measure(have.get(name), values)
                self._largest[name] = max(self._largest[name], apart)
        return lines

    def report(self) -> Iterator[str]:
        """Yield a line for each output, for each reason why recordings were not sent, and the sum."""
        for name, count in self._compared.items():
            largest = self._largest[name]
            most = f"; the largest difference is {largest:.3g}" * bool(largest)
            yield f"{name}: {self._differing[name]} of {count} differ{most}"
        yield from self._recordings.report()
        sums = f"{self.differing} of {self.sent} requests differ"
        yield f"replay: {sums if self.sent else 'no recording can be sent again'}"


def send(project: Project, client: Any, call: Call) -> list[Arrays]:
    """Return the responses to a call: to one request, or to those of a sequence in order."""
    if len(call) == 1:
        return list(client.answers(call[0].inputs))
    number = random.randrange(1, 2**63)
    answers: list[Arrays] = []
    own, ask = package(project), client.stream if project.decoupled else client.infer
    try:
        for sent in call:
            answer = ask(sent.inputs, number, sent.number == 0, sent.end)
            answers += answer if project.decoupled else [answer]
    except own.InferenceError:
        with suppress(own.InferenceError):  # else Triton would hold the sequence's place
            list(ask(call[0].inputs, number, end=True))
        raise
    return answers
