# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Each Python step keeps its word: asked for zeros, random values and samples, it answers as its config declares, or raises InvalidRequest."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tools.checks.project import plain
from tools.harness import Harness, HarnessError, Refusal, apart, config_json
from tools.project import OWN_MODELS, REPOSITORY, REQUIREMENTS, ROOT, STEP_MODULES
from tools.samples import load

Arrays = dict[str, NDArray[Any]]
TIMEOUT_S = 10.0  # for a call
LEAK_BYTES = 1 << 18  # a call; noise is far below
STEPS = ROOT / "steps"
OTHERS = {STEPS / folder for folder in OWN_MODELS.values()}  # serve what they like
SOURCES = [path for path in sorted(STEPS.rglob("*.py")) if OTHERS.isdisjoint(path.parents)]
OWN = {"numpy", "steps", "step_types", "triton_step"}
NAMES = {"FP16": "float16", "FP32": "float32", "FP64": "float64", "BOOL": "bool"}


class Model:
    """A Python model in the harness, and requests for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = self.folder.parent.name
        self.config = json.loads(config_json(self.folder.parent / "config.pbtxt"))
        self.batched = self.config["max_batch_size"] > 0
        rows = 1 if "sequence_batching" in self.config else self.config["max_batch_size"]
        self.max_rows = max(1, min(3, rows))

    def requests(self, rows: int = 1) -> dict[str, Arrays]:
        """Zeros, random values, and the samples whose inputs are those of the step."""
        random = np.random.default_rng(0)
        found = {"zeros": self._filled(rows, None), "random values": self._filled(rows, random)}
        names = {tensor["name"] for tensor in self.config["input"]}
        for sample in load(ROOT / "samples"):
            if sample.inputs.keys() == names:
                given = {name: array[:1].repeat(rows, 0) for name, array in sample.inputs.items()}
                found[f"sample {sample.name}"] = given if self.batched else sample.inputs
        return found

    def _filled(self, rows: int, random: np.random.Generator | None) -> Arrays:
        return {
            tensor["name"]: self._array(tensor, rows, random) for tensor in self.config["input"]
        }

    def _array(
        self, tensor: dict[str, Any], rows: int, random: np.random.Generator | None
    ) -> NDArray[Any]:
        seen = tensor["reshape"]["shape"] if "reshape" in tensor else tensor["dims"]
        dims = [2 if int(dim) < 0 else int(dim) for dim in seen]
        shape = [rows] * self.batched + dims
        kind = tensor["data_type"].removeprefix("TYPE_")
        values = random.random(shape) * 100 if random else np.zeros(shape)
        if kind == "STRING":
            texts = [b"%d" % value for value in values.flat] if random else [b""] * values.size
            return np.array(texts, dtype=np.object_).reshape(shape)
        return values.astype(NAMES.get(kind, kind.lower()))


def models() -> Iterator[str]:
    """Version folders; where several steps share a model also VERSION:STEP, each alone."""
    for version in STEP_MODULES:
        manifest = json.loads((REPOSITORY / version / "step.json").read_text())
        steps = manifest.get("steps", [])
        if not any(step["calls"] for step in steps or [manifest]):  # which only a server answers
            yield version
        yield from (f"{version}:{s['name']}" for s in steps if "module" in s and not s["calls"])


@pytest.fixture(params=models())
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Model:
    version, _, step = request.param.partition(":")
    folder = REPOSITORY / version
    return Model(apart(folder, step, tmp_path) if step else folder)


@pytest.fixture
def harness(model: Model) -> Iterator[Harness]:
    try:
        with Harness(model.folder, TIMEOUT_S) as harness:
            yield harness
    except HarnessError as error:
        pytest.fail(f"step {model.name} {error}", pytrace=False)


def answers(harness: Harness, name: str, requests: list[Arrays], what: str) -> list[Arrays]:
    """Those that are no InvalidRequest; an error of the step fails the test."""
    try:
        found = harness.execute(requests)
    except HarnessError as error:
        pytest.fail(f"step {name}, given {what}: {error}", pytrace=False)
    for answer in found:
        if isinstance(answer, Refusal) and not answer.invalid:
            pytest.fail(f"given {what}: {answer}\n{harness.log()}", pytrace=False)
    return [answer for answer in found if isinstance(answer, dict)]


def test_keeps_its_contract(model: Model, harness: Harness) -> None:
    for rows in {1, model.max_rows}:
        for what, request in model.requests(rows).items():
            first, *others = [
                [{name: array.shape for name, array in answer.items()} for answer in found]
                for found in (answers(harness, model.name, [request], what) for _ in range(5))
            ]
            for other in others:
                assert first == other, f"given {what}, answers once {first} and once {other}"


def test_answers_requests_together_as_alone(model: Model, harness: Harness) -> None:
    for what, request in model.requests().items():
        alone = answers(harness, model.name, [request], what)
        for _ in range(2):  # once one by one, once joined
            together = answers(harness, model.name, [request] * 3, f"{what} three times")
            shapes = [{name: array.shape for name, array in one.items()} for one in together]
            assert (
                shapes == [{name: array.shape for name, array in one.items()} for one in alone] * 3
            )


def test_prints_nothing(model: Model, harness: Harness) -> None:
    for what, request in model.requests().items():
        answers(harness, model.name, [request], what)
    printed = harness.printed()
    assert not printed, f"step {model.name} prints {printed[:80]!r}; use context.logger"


def test_leaks_no_memory(model: Model, harness: Harness) -> None:
    requests = list(model.requests().items())
    before, calls, end = 0, 0, time.monotonic() + TIMEOUT_S
    for i in range(120):
        what, request = requests[i % len(requests)]
        answers(harness, model.name, [request], what)
        if i < 60 or not before:  # caches fill
            before = harness.memory_bytes()
        else:
            calls += 1
        if time.monotonic() > end and calls:
            break
    leaked = (harness.memory_bytes() - before) // max(calls, 1)
    assert leaked < LEAK_BYTES, f"step {model.name} keeps {leaked >> 10} KiB of memory a call"


def imported(path: Path) -> set[str]:
    """The packages that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_declares_what_it_imports(path: Path) -> None:
    declared = {plain(name) for name in REQUIREMENTS}
    distributions = importlib.metadata.packages_distributions()
    for name in imported(path) - OWN - sys.stdlib_module_names:
        owners = {plain(owner) for owner in distributions.get(name, [name])}
        assert owners & declared, (
            f"{path.relative_to(ROOT)} imports {name}; add {' or '.join(sorted(owners))} "
            "to the step's requirements in pipeline.yml, then `make update`"
        )
