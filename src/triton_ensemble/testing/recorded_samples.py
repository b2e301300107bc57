"""Turn recorded requests into samples, and their responses into golden answers.

    make samples FROM=recordings N=20

TRITON_RECORD=FOLDER lets the client and the gateway record. Equal requests become one sample. The samples
cover the shapes of inputs and the lengths of texts, in classes that double. If N allows more, each class gets
a second sample, then a third. Look at what your users have sent before you commit it.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Mapping
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np

from triton_ensemble.facts.client import Array, Arrays, package
from triton_ensemble.facts.project import Project
from triton_ensemble.testing import golden
from triton_ensemble.testing.files import load, text
from triton_ensemble.testing.record import report
from triton_ensemble.testing.recordings import Call, Recordings, Sent, add_folder

MOST = 20
Kind = tuple[tuple[str, tuple[int, ...], int], ...]
Kinds = dict[Kind, list[str]]  # of names that `identify` gives


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the folder, and how many samples to write."""
    add_folder(parser)
    most = f"samples to write; default: {MOST}"
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help=most)


def run(arguments: argparse.Namespace) -> int:
    """Write the samples, or return 1 after a line if no recording can be one."""
    project = Project.load(Path.cwd())
    try:
        recordings = Recordings(project, Path(arguments.folder))
        found = {identify(each.inputs): each for each in _list_requests(recordings)}
        known = {identify(each.inputs) for each in load(project)} & found.keys()
        kinds = _group(found)
        chosen = _choose(kinds, known, arguments.most)
        _write(project, {key: found[key] for key in chosen})
    except (OSError, ValueError) as error:
        print(f"samples: {error}", file=sys.stderr)
        return 1
    print(*recordings.report(), sep="\n", end="\n" * bool(recordings.left_out))
    covered = sum(not known.union(chosen).isdisjoint(keys) for keys in kinds.values())
    more = "; a larger N covers more" if covered < len(kinds) else ""
    there = f", of which samples/ has {len(known)}" if known else ""
    print(f"{len(recordings.files)} recordings, {len(found)} different requests{there}")
    print(f"{len(chosen)} new samples; {covered} of {len(kinds)} shapes and text lengths{more}")
    return 0 if found else 1


def identify(inputs: Arrays) -> str:
    """Return a name for a request: equal inputs have the same."""
    digest = hashlib.sha256()
    for name, array in sorted(inputs.items()):
        values = array.tolist() if array.dtype == object else array.tobytes()
        digest.update(repr((name, array.dtype.str, array.shape, values)).encode())
    return digest.hexdigest()[:8]


def _list_requests(recordings: Recordings) -> Iterator[Sent]:
    """Yield the recordings that can be samples, each as one request, and count the others."""
    for call in recordings.calls():
        try:
            yield _join(recordings.project, call)
        except ValueError as error:
            recordings.left_out[str(error)] += len(call)


def _join(project: Project, call: Call) -> Sent:
    """Return a call as one request, or raise ValueError if a sample can't have it."""
    batches = package(project, "runtime.batches")
    first, answers = call[0], [answer for sent in call for answer in sent.answers]
    inputs = first.inputs
    if len(call) > 1:
        if not project.batched or any(sent.inputs.keys() != inputs.keys() for sent in call):
            raise ValueError("of a sequence that can't be rows of one sample")
        inputs = batches.join_rows([sent.inputs for sent in call])
        answers = answers if project.decoupled else [batches.join_rows(answers)]
    if not all(np.isfinite(array).all() for array in inputs.values() if array.dtype.kind == "f"):
        raise ValueError("with NaN or infinity, which a sample can't have")
    return Sent(first.name, inputs, answers)


def _group(requests: Mapping[str, Sent]) -> Kinds:
    """Return requests by the shapes of their inputs and the lengths of their longest texts, in doublings."""
    kinds: Kinds = {}
    for key, sent in requests.items():
        kind = tuple((n, a.shape, _find_length(a)) for n, a in sorted(sent.inputs.items()))
        kinds.setdefault(kind, []).append(key)
    return kinds


def _find_length(array: Array) -> int:
    cells = array.flat if array.dtype == object else ()
    return max(map(len, cells), default=0).bit_length()


def _choose(kinds: Kinds, known: set[str], most: int) -> list[str]:
    """Return at most so many requests: the newest of each kind without a sample, then one more of each."""
    ordered = (sorted(reversed(each), key=lambda key: key not in known) for each in kinds.values())
    rounds = chain.from_iterable(zip_longest(*ordered))
    return [key for key in rounds if key and key not in known][: max(most, 0)]


def _write(project: Project, chosen: Mapping[str, Sent]) -> None:
    """Write samples, and golden answers of those whose recording has all outputs."""
    tensors = package(project, "tensors").OUTPUTS
    needed = {name for name, tensor in tensors.items() if not tensor.optional}
    answers = {}
    project.samples.mkdir(exist_ok=True)
    for key, sent in chosen.items():
        name = f"recorded-{key}"
        path = project.samples / f"{name}.json"
        path.write_text(text(project, sent.inputs), encoding="utf-8")
        report(project, path, sent.inputs, sent.answers[0] if sent.answers else {}, [])
        if all(answer.keys() >= needed for answer in sent.answers):
            answers[name] = sent.answers
    if answers:
        print(golden.write(project, answers, golden.load(project)["answers"]))
