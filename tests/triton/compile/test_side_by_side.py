"""Models that read the same tensor compute at the same time, as a real Triton traces it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import Generate, Project

from triton_ensemble.serve.local.local_triton import LocalTriton

REQUESTS = 200
WARM = 20  # requests that are not counted

# By starting pipeline: the two models, and what a request of 8 rows is made of.
BRANCHES: dict[str, tuple[tuple[str, str], str, list[str]]] = {
    "digit-screening": (("classify", "screen"), "IMAGE", ["digit-7.jpg", "pagoda.jpg"]),
    "second-opinion": (("linear", "forest"), "MEASUREMENTS", ["benign.txt", "malignant.txt"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BRANCHES)
def test_both_branches_compute_at_the_same_time(
    generate: Generate, tmp_path: Path, name: str
) -> None:
    """One after the other, they never would. A machine that is busy with other work has them wait for it."""
    project = generate.complete(starting_pipeline=name)
    models, tensor, files = BRANCHES[name]
    times = traced(project, models, tensor, files, tmp_path / "trace.json")
    shared, shorter = np.array([overlap(*pair) for pair in times]).T
    print(
        f"{name}: both compute in {np.mean(shared > 0):.0%} of {len(times)} requests,"
        f" for {np.median(shared / shorter):.0%} of the shorter one's {np.median(shorter) / 1e3:.0f} us"
    )
    assert np.mean(shared > 0) > 0.1


def overlap(one: dict[str, int], other: dict[str, int]) -> tuple[int, int]:
    """Return for how long both compute, below 0 where they don't, and how long the shorter one does, in ns."""
    begin, end = "COMPUTE_START", "COMPUTE_END"
    shared = min(one[end], other[end]) - max(one[begin], other[begin])
    return shared, min(times[end] - times[begin] for times in (one, other))


def traced(
    project: Project, models: tuple[str, str], tensor: str, files: list[str], trace: Path
) -> list[list[dict[str, int]]]:
    """Return for each request when both models did what: ns by event."""
    rows = [[(project / "samples" / file).read_bytes()] for file in files] * 4
    settings = (f"triton,file={trace}", "mode=triton", "level=TIMESTAMPS", "rate=1")
    flags = [f"--trace-config={setting}" for setting in settings]
    repository = project / "model_repository"
    with (
        LocalTriton(repository, project.package, server_args=flags) as triton,
        project.client(triton.http_url) as client,
    ):
        for _ in range(REQUESTS):
            client.infer({tensor: np.array(rows, dtype=np.object_)})
    requests: dict[int, dict[str, dict[str, int]]] = {}
    for event in events(trace):
        if event.get("model_name") in models:
            requests.setdefault(event["parent_id"], {})[event["model_name"]] = event["ns"]
    return [[requests[key][model] for model in models] for key in sorted(requests)[WARM:]]


def events(trace: Path) -> list[dict[str, Any]]:
    """Return what Triton has traced, an item a model and request: its fields, and `ns` by event."""
    found: dict[int, dict[str, Any]] = {}
    for path in trace.parent.glob(f"{trace.name}*"):
        for event in json.loads(path.read_text()):
            known = found.setdefault(event["id"], {"ns": {}})
            known["ns"] |= {each["name"]: each["ns"] for each in event.pop("timestamps", [])}
            known |= event
    return list(found.values())
