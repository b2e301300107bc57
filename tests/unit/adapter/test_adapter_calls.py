"""Models that a step calls, as functions: what is asked of Triton, and what comes back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import fake_triton
import numpy as np
import pytest
from fake_triton import Adapter, Answer, InferenceRequest, Request

MODEL = {
    "name": "other",
    "version": 4,
    "arguments": {"a": "A", "b": "B/x"},
    "outputs": ["Y"],
}
ARRAY = np.ones(2, np.float32)
Reply = Callable[[Any], None]


@pytest.fixture(scope="module")
def adapter() -> Iterator[Adapter]:
    with pytest.MonkeyPatch.context() as patch:
        yield fake_triton.install(patch)


@pytest.fixture
def reply(monkeypatch: pytest.MonkeyPatch) -> Reply:
    """Return what sets the answer of the model that is called."""

    def set_reply(answer: Any) -> None:
        function = answer if callable(answer) else lambda request: answer
        monkeypatch.setattr(InferenceRequest, "reply", function, raising=False)

    return set_reply


@pytest.fixture
def call(adapter: Adapter) -> Any:
    return make_call(adapter)


def make_call(adapter: Adapter, kind: str = "Call", **more: Any) -> Any:
    made = {**MODEL, **more}, adapter.arrays.NumpyArrays(), adapter.calls.Answered()
    return getattr(adapter.calls, kind)(*made)


def stream(adapter: Adapter, kind: str = "Call") -> Any:
    """Return the call of a decoupled model."""
    return make_call(adapter, kind, decoupled=True)


def test_outputs_come_by_their_names(call: Any, reply: Reply) -> None:
    asked: list[InferenceRequest] = []

    def answer(request: InferenceRequest) -> Answer:
        asked.append(request)
        return Answer(Y=3 * request.arrays["A"])

    reply(answer)
    assert call(a=ARRAY, b=None)["Y"].tolist() == [3, 3]
    [request] = asked
    del request.asked["inputs"]
    assert request.asked == {
        "model_name": "other",
        "model_version": 4,
        "requested_output_names": ["Y"],
        "timeout": 0,
    }


def test_only_a_call_of_a_model_of_sequences_takes_a_position(call: Any) -> None:
    with pytest.raises(
        TypeError, match="model other serves no sequences; call it by its inputs alone"
    ):
        call((7, True, False), a=ARRAY)


def test_an_input_goes_under_the_models_name(call: Any, reply: Reply) -> None:
    reply(lambda request: Answer(**request.arrays))
    assert call(b=ARRAY).keys() == {"B/x"}


def test_an_argument_that_the_model_lacks(call: Any) -> None:
    with pytest.raises(TypeError, match="model other has no input c; it has a, b"):
        call(c=ARRAY)


def test_an_error_of_the_model(call: Any, reply: Reply) -> None:
    reply(Answer("it is broken"))
    with pytest.raises(RuntimeError, match="model other: it is broken"):
        call(a=ARRAY)


def test_the_time_that_is_left_goes_with_the_call(
    adapter: Adapter, call: Any, reply: Reply
) -> None:
    now = adapter.calls.perf_counter()
    call._answered.of_step = adapter.calls.Waiting([Request(timeout_us=60_000_000)], now)
    reply(lambda request: Answer(Y=request.asked["timeout"]))
    assert 50_000_000 < call(a=ARRAY)["Y"] <= 60_000_000


@pytest.mark.parametrize("kind", ["Call", "AsyncCall"])
def test_a_call_ends_when_nobody_waits(adapter: Adapter, reply: Reply, kind: str) -> None:
    request, never = Request(), threading.Event()
    call = make_call(adapter, kind)
    call._answered.of_step = adapter.calls.Waiting([request], adapter.calls.perf_counter())

    def answer(asked: Any) -> Answer:
        request.cancelled = True
        never.wait(20)
        return Answer()

    async def wait() -> None:
        await call(a=ARRAY)

    reply(answer)
    try:
        with pytest.raises(adapter.calls.NobodyWaitsError, match="cancelled"):
            call(a=ARRAY) if kind == "Call" else asyncio.run(wait())
    finally:
        never.set()


def test_no_call_begins_when_the_time_is_over(adapter: Adapter, call: Any, reply: Reply) -> None:
    call._answered.of_step = adapter.calls.Waiting([Request(timeout_us=1)], 0.0)
    asked: list[Any] = []
    reply(asked.append)
    with pytest.raises(TimeoutError, match="waited for model other"):
        call(a=ARRAY)
    assert asked == []


def test_an_async_step_waits_for_calls_side_by_side(adapter: Adapter, reply: Reply) -> None:
    both = threading.Barrier(2, timeout=20)
    call = make_call(adapter, "AsyncCall")

    def answer(request: InferenceRequest) -> Answer:
        both.wait()
        return Answer(Y=request.arrays["A"])

    async def ask() -> list[Any]:
        return list(await asyncio.gather(call(a=ARRAY), call(a=2 * ARRAY)))

    reply(answer)
    assert [each["Y"][0] for each in asyncio.run(ask())] == [1, 2]


class Stream:
    """Answers of a decoupled model, the last without outputs. It keeps whether they were stopped."""

    def __init__(self) -> None:
        self.answers = iter([Answer(Y=1), Answer(Y=2), Answer()])
        self.stopped = False

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Answer:
        return next(self.answers)

    def cancel(self) -> None:
        self.stopped = True


@pytest.mark.parametrize("taken", [1, 2])
def test_answers_of_a_decoupled_model(adapter: Adapter, reply: Reply, taken: int) -> None:
    answers = Stream()
    reply(answers)
    outputs = stream(adapter)(a=ARRAY)
    assert [next(outputs)["Y"] for _ in range(taken)] == [1, 2][:taken]
    outputs.close()
    assert answers.stopped


def test_a_stream_ends_and_its_last_sign_is_no_answer(adapter: Adapter, reply: Reply) -> None:
    reply([Answer(Y=1), Answer()])  # of a Triton before 25.04, which can't be stopped
    assert [each["Y"] for each in stream(adapter)(a=ARRAY)] == [1]


def test_an_error_in_a_stream(adapter: Adapter, reply: Reply) -> None:
    reply([Answer(Y=1), Answer("it is broken")])
    outputs = stream(adapter)(a=ARRAY)
    assert next(outputs)["Y"] == 1
    with pytest.raises(RuntimeError, match="it is broken"):
        next(outputs)


def test_an_async_step_reads_a_stream(adapter: Adapter, reply: Reply) -> None:
    answers = Stream()
    reply(answers)

    async def read() -> list[Any]:
        return [each["Y"] async for each in stream(adapter, "AsyncCall")(a=ARRAY)]

    assert asyncio.run(read()) == [1, 2]
    assert answers.stopped


def test_an_async_step_answers_for_each_of_its_requests(adapter: Adapter) -> None:
    waiting, answered = (
        adapter.calls.Waiting([Request(timeout_us=1)], 0.0),
        adapter.calls.Answered(),
    )

    async def look() -> Any:
        answered.of_task.set(waiting)
        return answered.now()

    assert asyncio.run(look()) is waiting
    assert answered.now() is answered.of_step
