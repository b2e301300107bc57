"""Run one Python step on a sample request, in the foreground, and print what it returns.

The code runs from steps/, so breakpoints and tracebacks are in your files. Models whose outputs the step
reads run first: on the server at TRITON_GRPC_URL or TRITON_URL, otherwise on the server of `make serve`,
otherwise on a Triton that the command starts without the step. Their outputs are recorded, and used again
until a file of the models changes.
"""

from __future__ import annotations

import argparse
import bdb
import pdb
import sys
import traceback
from functools import partial
from pathlib import Path

from triton_ensemble.facts.client import Arrays
from triton_ensemble.facts.project import Project
from triton_ensemble.facts.terminal import give_streams
from triton_ensemble.serve.local.process import ServerError
from triton_ensemble.step import StepError
from triton_ensemble.step.foreground import ForegroundStep, from_owner
from triton_ensemble.step.manifests import Served, find_served
from triton_ensemble.step.recorded import Recorded
from triton_ensemble.step.upstream import Upstream, sample_of_file
from triton_ensemble.testing.files import Sample, samples
from triton_ensemble.testing.printing import cells, split_rows

SHOWN_ROWS, SHOWN_CHARACTERS = 8, 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the step, the sample, and whether to stop in the debugger."""
    parser.add_argument("name", nargs="?", help="the name of a step with code in steps/")
    parser.add_argument(
        "--sample",
        help="the name of a sample in samples/, or another such file; default: the first sample",
    )
    parser.add_argument("--debug", action="store_true", help="stop in pdb at the start of the step")


def run(arguments: argparse.Namespace) -> int:
    """Run the step. Return 1 if it fails, or 2 if it can't be run."""
    project = Project.load(Path.cwd())
    try:
        step = find_served(project, arguments.name)
        sample = _sample(project, step, arguments.sample)
        recorded = Recorded(project, step, sample)
        kept = None if Path(arguments.sample or "").is_file() else recorded.read()
        with Upstream(project, step, kept or sample) as upstream:
            tensors = upstream.tensors()
            if kept:
                print(f"as recorded in {recorded.path.relative_to(project.root)}:")
            elif not upstream.own and upstream.is_whole(tensors):
                recorded.write(tensors)
            return _run(project, step, sample, upstream, tensors, arguments.debug)
    except (OSError, ServerError, StepError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


def _sample(project: Project, step: Served, name: str | None) -> Sample:
    """Return the sample of this name or file, the first without one."""
    if not name:
        return samples(project)[0]
    if Path(name).is_file():
        return sample_of_file(project, step, Path(name))
    known = {sample.name: sample for sample in samples(project)}
    if name not in known:
        raise StepError(f"SAMPLE={name}: not found; write a file, or one of {', '.join(known)}")
    return known[name]


def _run(
    project: Project,
    step: Served,
    sample: Sample,
    upstream: Upstream,
    tensors: Arrays,
    debug: bool,
) -> int:
    inputs = upstream.select_inputs(tensors)
    print(f"step {step.name}, steps/{step.module}.py, on sample {sample.name}")
    try:
        with give_streams():
            foreground = ForegroundStep(project, step, upstream.call)
            answers = foreground.run(inputs, partial(_show, project), debug=debug)
    except bdb.BdbQuit:  # the owner has seen enough
        return 0
    except Exception as error:
        return _report_failure(project, step, error, debug)
    for answer in answers:
        print("returned:")
        _show(project, answer)
    if not debug:
        sys.stdout.flush()
        parts = (f"{part} {seconds:.4f}" for part, seconds in foreground.seconds.items())
        print(f"seconds: {', '.join(parts)}", file=sys.stderr)
    return 0


def _show(project: Project, arrays: Arrays) -> None:
    """Print each array: its type and shape, then its first rows, shortened."""
    for name, array in arrays.items():
        kind = "bytes" if array.dtype == object else array.dtype
        print(f"  {name} {kind}{list(array.shape)}")
        rows = split_rows(array, project.batched)
        for row in rows[:SHOWN_ROWS]:
            text = cells(row)
            print(f"    {text[:SHOWN_CHARACTERS]}{' ...' * (len(text) > SHOWN_CHARACTERS)}")
        if len(rows) > SHOWN_ROWS:
            print(f"    ... {len(rows)} rows")


def _report_failure(project: Project, step: Served, error: Exception, debug: bool) -> int:
    """Print what went wrong, with a traceback if the step's code raised an error by mistake."""
    kind = type(error).__name__
    trace = from_owner(project, error.__traceback__)
    if kind not in ("InvalidRequest", "StepError") and (trace or isinstance(error, SyntaxError)):
        sys.stdout.flush()
        traceback.print_exception(error.with_traceback(trace))
        if debug and trace:
            pdb.post_mortem(trace)
    else:
        text = str(error).removeprefix(f"step {step.name}: ")
        print(f"step {step.name}: {kind}: {text}", file=sys.stderr)
    return 1
