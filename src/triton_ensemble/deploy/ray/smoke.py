"""The smoke test of the application: each sample is answered as it must be, through Ray Serve."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request

import numpy as np
from tritonclient.utils import triton_to_np_dtype  # type: ignore[import-untyped]

from triton_ensemble.facts.client import Arrays, package
from triton_ensemble.facts.project import Project
from triton_ensemble.serve.container.inference import DIRECT
from triton_ensemble.testing import golden
from triton_ensemble.testing.files import (
    Sample,
    array,
    samples,
    way_out,
)
from triton_ensemble.testing.printing import to_json

TIMEOUT_S = 120


def test(project: Project, url: str) -> int:
    """Send each sample to the application at `url`, and print what came of it.

    Return 1 if one is not answered correctly.
    """
    failed = 0
    for sample in samples(project):
        problem = _problem(project, sample, url)
        failed |= bool(problem)
        print(f"{sample.name}: {problem or 'answered'}", flush=True)
    return failed


def _problem(project: Project, sample: Sample, url: str) -> str:
    body = json.dumps(to_json(sample.inputs)).encode()
    request = Request(f"{url}/predict", body, {"Content-Type": "application/json"})
    try:
        with DIRECT.open(request, timeout=TIMEOUT_S) as response:
            answers = [_arrays(project, answer) for answer in _answers(project, response)]
    except HTTPError as error:
        if sample.made_up and error.code == 400:
            print(f"{sample.name}: is refused{way_out(project, sample)}")
            return ""
        return f"status {error.code}: {error.read(500).decode(errors='replace')}"
    except OSError as error:
        return f"no answer: {error}"
    return golden.problem(project, sample, answers)


def _answers(project: Project, response: Any) -> Iterator[dict[str, Any]]:
    """Yield the answers: one object of JSON, or the object of each server-sent event."""
    if not project.decoupled:
        yield json.load(response)
        return
    for line in response:
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def _arrays(project: Project, answer: dict[str, Any]) -> Arrays:
    tensors = package(project, "tensors").OUTPUTS
    arrays = {
        name: array(value, project.samples) for name, value in answer.items() if name in tensors
    }
    types = {name: tensors[name].datatype for name in arrays}
    dtypes = {
        name: np.float32 if t == "BF16" else triton_to_np_dtype(t) for name, t in types.items()
    }
    return {name: values.astype(dtypes[name]) for name, values in arrays.items()}
