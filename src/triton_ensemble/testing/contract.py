"""Each Python step keeps its word: asked for zeros, random values and samples, it answers as its config declares, or raises InvalidRequest."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_ensemble.check.project import plain
from triton_ensemble.samples.compare import Values
from triton_ensemble.samples.golden import tolerances
from triton_ensemble.testing.harness import Harness, HarnessError, Refusal, apart, config_json
from triton_ensemble.project import OWN_MODELS, REPOSITORY, REQUIREMENTS, ROOT, STEP_MODULES
from triton_ensemble.samples.files import load

Arrays = dict[str, NDArray[Any]]
Item = TypeVar("Item")
Ask = Callable[..., list[Arrays]]
InTime = Callable[[list[Any]], Iterator[Any]]
Same = Callable[[str, str, Arrays, list[Arrays], list[Arrays]], None]
TIMEOUT_S = 10.0  # for a call
BUDGET_S = 10.0  # for a test, beyond the call that is under way
ENOUGH_CALLS = 20  # to tell a leak from a cache
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
        self.max_rows = max(1, min(4, rows))
        self.decoupled = self.config.get("model_transaction_policy", {}).get("decoupled", False)
        self.cut = rows > 1 and not self.decoupled

    def requests(self, rows: int = 1) -> dict[str, Arrays]:
        """The samples whose inputs are those of the step, zeros, and random values."""
        random = np.random.default_rng(0)
        found = {}
        names = {tensor["name"] for tensor in self.config["input"]}
        for sample in load(ROOT / "samples"):
            if sample.inputs.keys() == names:
                given = {name: array[:1].repeat(rows, 0) for name, array in sample.inputs.items()}
                found[f"sample {sample.name}"] = given if self.batched else sample.inputs
        found["zeros"] = self._filled(rows, None)
        found["random values"] = self._filled(rows, random)
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


@pytest.fixture
def ask(model: Model, harness: Harness) -> Ask:
    """Asks requests at once; an error of the step fails the test, answers are those that are no InvalidRequest."""

    def answers(what: str, *requests: Arrays) -> list[Arrays]:
        try:
            found = harness.execute(list(requests))
        except HarnessError as error:
            pytest.fail(f"step {model.name}, given {what}: {error}", pytrace=False)
        for answer in found:
            if isinstance(answer, Refusal) and not answer.invalid:
                pytest.fail(f"given {what}: {answer}\n{harness.log()}", pytrace=False)
        return [answer for answer in found if isinstance(answer, dict)]

    return answers


def within(seconds: float, items: Iterable[Item]) -> Iterator[Item]:
    """As many as there is time for, and one at least."""
    end = time.monotonic() + seconds
    for done, item in enumerate(items):
        if done and time.monotonic() > end:
            return
        yield item


@pytest.fixture
def in_time(model: Model) -> InTime:
    """As many items as a test has the time for, and one at least: a slow step is asked less often."""

    def some(items: list[Any]) -> Iterator[Any]:
        done = 0
        for item in within(BUDGET_S, items):
            yield item
            done += 1
        if done < len(items):
            told = f"step {model.name} is slow: {done} of {len(items)} tries in {BUDGET_S:g} s"
            warnings.warn(told, stacklevel=2)

    return some


@pytest.fixture
def same(model: Model, ask: Ask) -> Same:
    """Fails unless a request is answered as the same one was alone, but for what is random."""
    values = Values(tolerances())

    def check(
        case: str, what: str, request: Arrays, now: list[Arrays], alone: list[Arrays]
    ) -> None:
        once, then = shapes(alone), shapes(now)
        assert once == then, f"step {model.name}, given {what}, answers once {once} and once {then}"
        for have, want in zip(now, alone, strict=True):
            told = f"step {model.name}, given {what}, answers otherwise {case}:"
            if problem := values.problem(told, have, want, lambda: ask(what, request)):
                pytest.fail(problem, pytrace=False)

    return check


def shapes(answers: list[Arrays]) -> list[dict[str, tuple[int, ...]]]:
    return [{name: array.shape for name, array in answer.items()} for answer in answers]


def test_keeps_its_contract(model: Model, ask: Ask, in_time: InTime, same: Same) -> None:
    """Each time a request comes, whatever came before."""
    sizes = dict.fromkeys((1, model.max_rows))
    cases = [(rows, *case) for rows in sizes for case in model.requests(rows).items()]
    first: dict[tuple[int, str], list[Arrays]] = {}
    for rows, what, request in in_time(cases * 5):
        found = ask(what, request)
        same("after others", what, request, found, first.setdefault((rows, what), found))


def test_answers_requests_together_as_alone(
    model: Model, ask: Ask, in_time: InTime, same: Same
) -> None:
    for what, request in in_time([*model.requests().items()]):
        alone = ask(what, request)
        for _ in range(2):  # once one by one, once joined
            together = ask(what, *[request] * 3)
            assert len(together) == 3 * len(alone)
            for i in range(3):
                found = together[i * len(alone) : (i + 1) * len(alone)]
                same("together with others", what, request, found, alone)


def test_answers_rows_together_as_alone(
    model: Model, ask: Ask, in_time: InTime, same: Same
) -> None:
    if not model.cut:
        pytest.skip(f"step {model.name} does not take rows of several requests")
    for what, request in in_time([*model.requests(model.max_rows).items()]):
        for together in ask(what, request):
            for i in range(model.max_rows):
                alone = ask(what, row(request, i))
                found = [without_filling(row(together, i), one) for one in alone]
                wanted = [without_filling(one, row(together, i)) for one in alone]
                same(f"as row {i} of {model.max_rows}", what, row(request, i), found, wanted)


def row(arrays: Arrays, i: int) -> Arrays:
    return {name: array[i : i + 1] for name, array in arrays.items()}


def without_filling(arrays: Arrays, others: Arrays) -> Arrays:
    """Those of the same size in both: where that is open, other rows may fill it up."""
    return {n: array for n, array in arrays.items() if array.shape == others[n].shape}


def test_prints_nothing(model: Model, harness: Harness, ask: Ask, in_time: InTime) -> None:
    for what, request in in_time([*model.requests().items()]):
        ask(what, request)
    printed = harness.printed()
    assert not printed, f"step {model.name} prints {printed[:80]!r}; use context.logger"


def test_leaks_no_memory(model: Model, harness: Harness, ask: Ask) -> None:
    requests = cycle(model.requests().items())
    for _ in within(BUDGET_S / 2, range(60)):  # caches fill
        ask(*next(requests))
    before, asked = harness.memory_bytes(), 0
    for _ in within(BUDGET_S / 2, range(60)):
        ask(*next(requests))
        asked += 1
    if asked < ENOUGH_CALLS:
        pytest.skip(f"step {model.name} is slow: {asked} calls tell nothing of memory")
    leaked = (harness.memory_bytes() - before) // asked
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
