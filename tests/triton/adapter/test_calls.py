"""Steps that call other models, on a real Triton: side by side, and no longer than somebody waits for the answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from asking import Arrays, Client, asked, connect, streamed
from step_code import step_code
from step_models import called, write_step
from support import UNUSUAL, Generate, serve, step

from triton_ensemble.serve.local.local_triton import LocalTriton

SLEEP = "def __call__(self, IN):\n    import time\n    time.sleep(float(IN[0, 0]))\n    return {'OUT': IN}"
STREAM = (
    "def __call__(self, IN):\n    for i in range(int(IN[0, 0])):\n        yield {'OUT': IN + i}"
)
DECOUPLED = "model_transaction_policy { decoupled: true }"
# One step in each form that a step may have; each calls `slow` with the seconds that it is given, unless these are 0.
ONE = {
    "one": "def __call__(self, IN):\n    return self.context.calls.slow(IN=IN) if IN.any() else {'OUT': IN}",
    "one_async": "async def __call__(self, IN):\n    return await self.context.calls.slow(IN=IN) if IN.any() else {'OUT': IN}",
    "one_stream": "def __call__(self, IN):\n    yield self.context.calls.slow(IN=IN) if IN.any() else {'OUT': IN}",
}
# Sees late that the call has ended, as a busy machine does.
LATE = """
async def __call__(self, IN):
    import asyncio, time
    call = asyncio.ensure_future(self.context.calls.one(IN=IN))
    await asyncio.sleep(0.1)
    time.sleep(0.5 if IN.any() else 0)
    return await call
"""
LOOP = """
def __call__(self, IN):
    for _ in range(20):
        IN = self.context.calls.slow(IN=IN)["OUT"]
    return {"OUT": IN}
"""
BOTH = {
    "both": """
def __call__(self, IN):
    from concurrent.futures import ThreadPoolExecutor
    slow, other = self.context.calls.slow, self.context.calls.other
    with ThreadPoolExecutor() as threads:
        one, two = threads.submit(slow, IN=IN), threads.submit(other, IN=IN)
        return {"OUT": one.result()["OUT"] + two.result()["OUT"]}
""",
    "both_async": """
async def __call__(self, IN):
    import asyncio
    slow, other = self.context.calls.slow, self.context.calls.other
    one, two = await asyncio.gather(slow(IN=IN), other(IN=IN))
    return {"OUT": one["OUT"] + two["OUT"]}
""",
}
FIRST_TWO = {
    "first_two": """
def __call__(self, IN):
    answers = self.context.calls.stream(IN=IN)
    return {"OUT": next(answers)["OUT"] + next(answers)["OUT"]}
""",
    "all_async": """
async def __call__(self, IN):
    answers = [answer["OUT"] async for answer in self.context.calls.stream(IN=IN)]
    return {"OUT": np.float32(len(answers)) + sum(answers)}
""",
}

# A sum over a sequence, and steps that call it: once for each request, or all of a sequence for one request.
ADDS = """
def __call__(self, position, /, IN):
    sums = vars(self).setdefault("sums", {})
    sums[position.id] = IN + (0 if position.start else sums[position.id])
    return {"OUT": sums.pop(position.id) if position.end else sums[position.id]}
"""
SEQUENCE = "sequence_batching { direct { } }"
SUMS = {
    "sums": "def __call__(self, IN):\n    return self.context.calls.adds(IN=IN)",
    "sums_async": "async def __call__(self, IN):\n    return await self.context.calls.adds(IN=IN)",
    "sums_stream": "def __call__(self, IN):\n    yield self.context.calls.adds(IN=IN)",
    "sums_inside": "def __call__(self, position, /, IN):\n    return self.context.calls.adds(position, IN=IN)",
}
SUM_OF_ROWS = """
def __call__(self, IN):
    from triton_step import SequencePosition
    for i in range(3):
        position = SequencePosition(1000, start=i == 0, end=i == 2)
        answer = self.context.calls.adds(position, IN=IN)
    return answer
"""


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalTriton]:
    repository = tmp_path_factory.mktemp("calls")
    for name in ("slow", "other"):
        write_step(repository, name, SLEEP, more="instance_group { count: 8 kind: KIND_CPU }")
    write_step(repository, "stream", STREAM, more=DECOUPLED)
    calls: dict[str, Any] = {
        name: called(name, ["OUT"], IN="IN") for name in ("slow", "other", "one")
    }
    calls["stream"] = {**called("stream", ["OUT"], IN="IN"), "decoupled": True}
    for name, code in (ONE | BOTH | FIRST_TWO).items():
        more = DECOUPLED if name == "one_stream" else ""
        write_step(repository, name, code, more=more, calls=calls)
    write_step(repository, "adds", ADDS, more=SEQUENCE)
    calls["adds"] = {**called("adds", ["OUT"], IN="IN"), "sequence": True}
    for name, code in {**SUMS, "sum_of_rows": SUM_OF_ROWS}.items():
        more = {"sums_stream": DECOUPLED, "sums_inside": SEQUENCE}.get(name, "")
        write_step(repository, name, code, more=more, calls=calls)
    write_step(repository, "loop", LOOP, calls=calls)
    write_step(repository, "late", LATE, calls=calls)
    write_step(repository, "outer", ONE["one"].replace("slow", "one"), calls=calls)
    with LocalTriton(repository, "one") as server:
        yield server


@pytest.fixture(scope="module")
def client(triton: LocalTriton) -> Iterator[Client]:
    with connect(triton) as client:
        yield client


def given(seconds: float) -> Arrays:
    return {"IN": np.full((1, 4), seconds, np.float32)}


def first(answer: Arrays | str) -> float:
    assert isinstance(answer, dict), answer
    return float(answer["OUT"][0, 0])


def requests_to(client: Client, model: str) -> int:
    [statistics] = client.get_inference_statistics(model).model_stats
    return int(statistics.inference_stats.success.count)


@pytest.mark.parametrize("model", BOTH)
def test_two_calls_take_as_long_as_one(client: Client, model: str) -> None:
    took = []
    for _ in range(3):
        start = time.monotonic()
        assert first(asked(client, model, given(0.5))) == pytest.approx(1)
        took.append(time.monotonic() - start)
    assert 0.5 < min(took) < 0.9


def test_answers_of_a_decoupled_model(client: Client) -> None:
    assert first(asked(client, "first_two", given(3))) == 3 + 4
    assert first(asked(client, "all_async", given(3))) == 3 + (3 + 4 + 5)


@pytest.mark.parametrize("model", SUMS)
def test_a_call_is_part_of_the_sequence_of_the_request(triton: LocalTriton, model: str) -> None:
    """Of several at once each has its own sum over three requests, though all could be in one batch."""

    def add_up(sequence: int) -> list[float]:
        with connect(triton) as client:
            return [first(ask(client, sequence, start=i == 0, end=i == 2)) for i in range(3)]

    def ask(client: Client, sequence: int, start: bool, end: bool) -> Arrays | str:
        at = {"sequence_id": sequence, "sequence_start": start, "sequence_end": end}
        if model == "sums_stream":
            return streamed(triton, model, given(sequence), **at)[0]
        return asked(client, model, given(sequence), **at)

    with ThreadPoolExecutor() as threads:
        sums = [*threads.map(add_up, range(1, 9))]
    assert sums == [[sequence, 2 * sequence, 3 * sequence] for sequence in range(1, 9)]


def test_a_step_may_keep_a_sequence_of_its_own(client: Client) -> None:
    assert first(asked(client, "sum_of_rows", given(2))) == 6


@pytest.mark.slow
def test_a_sequence_goes_through_a_call_of_a_projects_step(generate: Generate) -> None:
    tensor = {"type": "FP32", "dims": [1]}
    project = generate(
        project_name="sums",
        tensors=dict.fromkeys("AB", "FP32[1]"),
        steps=[
            step("total", ["A"], ["B"], calls=["add_up"]),
            step("add_up", {"x": tensor}, {"y": tensor}, sequence={"direct": {}}),
        ],
    )
    (project / "steps/total.py").write_text(
        CODE.format("A", "return {'B': self.calls.add_up(x=A)['y']}")
    )
    body = "self.s = x + (0 if at.start else self.s); return {'y': self.s}"
    (project / "steps/add_up.py").write_text(CODE.format("at, /, x", body))
    with serve(project) as server, project.client(server.urls["grpc"]) as client:
        ones = {"A": np.ones((1, 1), np.float32)}
        sums = [client.infer(ones, 5, i == 0, i == 2)["B"].item() for i in range(3)]
    assert sums == [1, 2, 3]


@pytest.mark.parametrize("model", ["one", "one_async", "outer", "late"])
def test_a_call_ends_with_the_time_of_the_request(client: Client, model: str) -> None:
    """And at once: the model that is called goes on, the step takes the next request."""
    start = time.monotonic()
    error = asked(client, model, given(2), timeout=300_000)
    took = time.monotonic() - start
    inner = "one" if model in {"outer", "late"} else "slow"
    assert error == f"step {model}: has waited for model {inner} until the request's time was over"
    assert first(asked(client, model, given(0))) == 0
    assert 0.3 <= took < 1.5
    assert first(asked(client, "one", given(0))) == 0  # of `outer`, the step in between is free too
    assert time.monotonic() - start < 1.9


CODE = step_code(
    """
def __call__(self, {}):
    {}
""",
    init="self.calls = context.calls",
)


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "fuse"), [("http", False), ("grpc", False), ("grpc", True)])
def test_a_call_ends_with_the_time_of_the_projects_client(
    generate: Generate, protocol: str, fuse: bool
) -> None:
    """Triton tells no step of an ensemble that a client has left. An async step makes those fused with it async."""
    tensor = {"type": "FP32", "dims": [1]}
    project = generate(
        project_name=f"calls-{protocol}-{fuse}".lower(),
        tensors=dict.fromkeys("ABC", "FP32[1]"),
        steps=[
            step("ask", ["A"], ["B"], calls=["sleep"], fuse=fuse),
            step("end", ["B"], ["C"], fuse=fuse),
            step("sleep", {"x": tensor}, {"y": tensor}, batching=False),
        ],
    )
    ask = "return {'B': self.calls.sleep(x=A)['y'] if A.any() else A}"
    sleep = "import time; time.sleep(float(x[0, 0])); return {'y': x}"
    end = CODE.replace("def __call__", "async def __call__").format("B", "return {'C': B}")
    for name, code in {
        "ask": CODE.format("A", ask),
        "sleep": CODE.format("x", sleep),
        "end": end,
    }.items():
        (project / f"steps/{name}.py").write_text(code)
    with serve(project) as server, project.client(server.urls[protocol]) as client:
        with pytest.raises(Exception, match=r"no answer in 0\.3 s|has waited for model sleep"):
            client.infer({"A": np.full((1, 1), 3, np.float32)}, timeout=0.3)
        start = time.monotonic()
        assert client.infer({"A": np.zeros((1, 1), np.float32)})["C"].tolist() == [[0]]
        assert time.monotonic() - start < 2


def test_a_stream_ends_with_the_time_of_the_request(triton: LocalTriton) -> None:
    error = "step one_stream: has waited for model slow until the request's time was over"
    start = time.monotonic()
    assert streamed(triton, "one_stream", given(2), timeout=300_000) == [error]
    assert time.monotonic() - start < 1.5


@pytest.mark.parametrize("model", ["one", "one_async"])
def test_a_request_that_is_in_time_is_answered(client: Client, model: str) -> None:
    assert first(asked(client, model, given(0.1), timeout=5_000_000)) == pytest.approx(0.1)


def test_whoever_leaves_ends_the_calls(client: Client) -> None:
    """A step makes no more calls for them, and takes the next request."""
    before = requests_to(client, "slow")
    assert "Deadline Exceeded" in str(asked(client, "loop", given(0.1), client_timeout=0.25))
    start = time.monotonic()
    assert first(asked(client, "loop", given(0))) == 0
    assert time.monotonic() - start < 1.5
    assert requests_to(client, "slow") - before < 20 + 6


@pytest.mark.parametrize("model", ["one", "one_async"])
def test_whoever_leaves_ends_the_wait_for_a_call(client: Client, model: str) -> None:
    assert "Deadline Exceeded" in str(asked(client, model, given(2), client_timeout=0.2))
    start = time.monotonic()
    assert first(asked(client, model, given(0))) == 0
    assert time.monotonic() - start < 1.5


def test_a_stub_shows_how_to_ask_a_model_that_it_calls(generate: Generate) -> None:
    text = (generate(**UNUSUAL["a model that is only called"]) / "steps/one.py").read_text()
    assert 'Ask model two: `context.calls.two(x=...)["y"]`.' in text
