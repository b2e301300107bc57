"""Contract tests of each Python step: it answers as its config declares, or raises InvalidRequest.

It is asked for zeros, random values and samples, in a process of its own and without a server.
`contract_timeout_s` and `contract_budget_s` in pytest's settings are the seconds for a call and a test.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

from triton_ensemble.facts.client import Arrays
from triton_ensemble.testing.causes import Cause, tell
from triton_ensemble.testing.compare import Values
from triton_ensemble.testing.files import load
from triton_ensemble.testing.fixtures import LOGGED
from triton_ensemble.testing.golden import tolerances
from triton_ensemble.testing.harness import (
    Harness,
    HarnessError,
    StepRefusal,
    standalone,
)
from triton_ensemble.testing.imports import iter_undeclared
from triton_ensemble.testing.python_model import (
    PythonModel,
    reads,
    reads_of_step,
    version_folders,
)
from triton_ensemble.testing.under_test import PROJECT

Item = TypeVar("Item")
Ask = Callable[..., list[Arrays]]
InTime = Callable[[list[Any]], Iterator[Any]]
Same = Callable[[str, str, Arrays, list[Arrays], list[Arrays]], None]
ENOUGH_CALLS = 20  # to distinguish a leak from a cache
LEAK_BYTES = 1 << 18  # a call; noise is far below
SAMPLES = load(PROJECT)
STEPS = PROJECT.root / "steps"
SOURCES = sorted(STEPS.rglob("*.py"))


@pytest.fixture(params=version_folders(PROJECT))
def model(request: pytest.FixtureRequest, tmp_path: Path) -> PythonModel:
    """Return each Python model, and each step that shares a model."""
    version, _, step = request.param.partition(":")
    folder = PROJECT.repository / version
    if step:
        folder = standalone(folder, step, tmp_path)
        return PythonModel(folder, reads_of_step(folder))
    return PythonModel(folder, reads(PROJECT, folder.parent.name))


@pytest.fixture
def harness(request: pytest.FixtureRequest, model: PythonModel) -> Iterator[Harness]:
    """Return the model's process, which has loaded it."""
    try:
        with Harness(model.folder, float(request.config.getini("contract_timeout_s"))) as harness:
            yield harness
    except HarnessError as error:
        stop(request, model, "harness", f"step {model.name} {error}")


def stop(request: pytest.FixtureRequest, model: PythonModel, fixture: str, text: str) -> NoReturn:
    """Fail a test, and skip tests that use the fixture for this model.

    Also skip tests of the ensemble that has the model, unless TRITON_URL names its server.
    """
    why = f"step {model.name} fails {request.node.name}"
    tell(request.node, Cause(fixture, why, request.node.callspec.params["model"]))
    if "TRITON_URL" not in os.environ:
        tell(request.node, Cause("urls" if fixture == "harness" else "client", why))
    pytest.fail(text, pytrace=False)


@pytest.fixture
def ask(request: pytest.FixtureRequest, model: PythonModel, harness: Harness) -> Ask:
    """Return a function that sends requests at once and returns their answers, except InvalidRequest.

    Any other error of the step fails the test.
    """

    def answers(what: str, *requests: Arrays) -> list[Arrays]:
        try:
            responses = harness.execute(list(requests))
        except HarnessError as error:
            stop(request, model, "ask", f"step {model.name}, given {what}: {error}")
        for response in responses:
            if isinstance(response, StepRefusal) and not response.invalid:
                text = str(response).removesuffix(f"; {LOGGED}")
                stop(request, model, "ask", f"given {what}: {text}\n{harness.log()}")
        return [response for response in responses if isinstance(response, dict)]

    return answers


def take_within(seconds: float, items: Iterable[Item]) -> Iterator[Item]:
    """Yield as many items as there is time for, and one at least."""
    end = time.monotonic() + seconds
    for done, item in enumerate(items):
        if done and time.monotonic() > end:
            return
        yield item


@pytest.fixture
def budget_s(request: pytest.FixtureRequest) -> float:
    """Return the seconds that a test has, beyond the call that is under way."""
    return float(request.config.getini("contract_budget_s"))


@pytest.fixture
def in_time(model: PythonModel, budget_s: float) -> InTime:
    """Return a function that yields as many items as a test has the time for: a slow step is asked less often."""

    def some(items: list[Any]) -> Iterator[Any]:
        done = 0
        for item in take_within(budget_s, items):
            yield item
            done += 1
        if done < len(items):
            message = f"step {model.name} is slow: {done} of {len(items)} tries in {budget_s:g} s"
            warnings.warn(message, stacklevel=2)

    return some


@pytest.fixture
def same(request: pytest.FixtureRequest, model: PythonModel, ask: Ask) -> Same:
    """Return a function that fails unless a request is answered as the same one was alone, but for what is random."""
    values = Values(tolerances(PROJECT))

    def check(case: str, what: str, asked: Arrays, now: list[Arrays], alone: list[Arrays]) -> None:
        where = f"step {model.name}, given {what}, answers"
        once, then = shapes(alone), shapes(now)
        if once != then:
            stop(request, model, "same", f"{where} once {once} and once {then}")
        for have, want in zip(now, alone, strict=True):
            heading = f"{where} otherwise {case}:"
            if problem := values.problem(heading, have, want, lambda: ask(what, asked)):
                stop(request, model, "same", problem)

    return check


def shapes(answers: list[Arrays]) -> list[dict[str, tuple[int, ...]]]:
    """Return the shapes of each answer, by output."""
    return [{name: array.shape for name, array in answer.items()} for answer in answers]


def test_keeps_its_contract(model: PythonModel, ask: Ask, in_time: InTime, same: Same) -> None:
    """Expect the same answer each time a request comes, whatever came before."""
    sizes = dict.fromkeys((1, model.max_rows))
    cases = [(rows, *case) for rows in sizes for case in model.requests(SAMPLES, rows).items()]
    first: dict[tuple[int, str], list[Arrays]] = {}
    for rows, what, request in in_time(cases * 5):
        answers = ask(what, request)
        same(
            "after others, so it keeps something between calls",
            what,
            request,
            answers,
            first.setdefault((rows, what), answers),
        )


def test_answers_requests_together_as_alone(
    model: PythonModel, ask: Ask, in_time: InTime, same: Same
) -> None:
    for what, request in in_time([*model.requests(SAMPLES).items()]):
        alone = ask(what, request)
        for _ in range(2):  # once one by one, once joined
            together = ask(what, *[request] * 3)
            assert len(together) == 3 * len(alone)
            for i in range(3):
                answers = together[i * len(alone) : (i + 1) * len(alone)]
                same("together with others", what, request, answers, alone)


def test_answers_rows_together_as_alone(
    model: PythonModel, ask: Ask, in_time: InTime, same: Same
) -> None:
    if not model.joins_requests:
        pytest.skip(f"step {model.name} does not take rows of several requests")
    for what, request in in_time([*model.requests(SAMPLES, model.max_rows).items()]):
        for together in ask(what, request):
            for i in range(model.max_rows):
                alone = ask(what, row(request, i))
                answers = [drop_filling(row(together, i), one) for one in alone]
                wanted = [drop_filling(one, row(together, i)) for one in alone]
                same(f"as row {i} of {model.max_rows}", what, row(request, i), answers, wanted)


def row(arrays: Arrays, i: int) -> Arrays:
    """Return a row of each array, as a request or answer of that row alone."""
    return {name: array[i : i + 1] for name, array in arrays.items()}


def drop_filling(arrays: Arrays, others: Arrays) -> Arrays:
    """Return the arrays that have the same size in both. If a size is open, other rows may fill the array up."""
    return {n: array for n, array in arrays.items() if array.shape == others[n].shape}


def test_prints_nothing(model: PythonModel, harness: Harness, ask: Ask, in_time: InTime) -> None:
    for what, request in in_time([*model.requests(SAMPLES).items()]):
        ask(what, request)
    printed = harness.read_stdout()
    assert not printed, f"step {model.name} prints {printed[:80]!r}; use context.logger"


def test_leaks_no_memory(model: PythonModel, harness: Harness, ask: Ask, budget_s: float) -> None:
    if not harness.shows_memory():
        pytest.skip("what a process holds in memory is seen on Linux alone")
    requests = cycle(model.requests(SAMPLES).items())
    for _ in take_within(budget_s / 2, range(60)):  # caches fill
        ask(*next(requests))
    before, asked = harness.memory_bytes(), 0
    for _ in take_within(budget_s / 2, range(60)):
        ask(*next(requests))
        asked += 1
    if asked < ENOUGH_CALLS:
        pytest.skip(f"step {model.name} is slow: {asked} calls tell nothing of memory")
    leaked = (harness.memory_bytes() - before) // asked
    assert leaked < LEAK_BYTES, f"step {model.name} keeps {leaked >> 10} KiB of memory a call"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_declares_what_it_imports(path: Path) -> None:
    if lines := list(iter_undeclared(PROJECT, path)):
        pytest.fail("\n".join(lines), pytrace=False)
