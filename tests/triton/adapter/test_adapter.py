"""The adapter of Python steps on a real Triton, all models in one server, and in the harness: the same answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc  # type: ignore[import-untyped]
from asking import Arrays, Client, arrays_of, as_inputs, asked, connect, four, metric, streamed
from numpy.typing import NDArray
from step_models import write_models, write_step
from support import assert_logged

from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.process import ServerError
from triton_ensemble.testing.harness import Harness, HarnessError

ERRORS = {
    1: "step bad: IN: 1 is refused; send another",
    2: "step bad failed; the server's log says why",
    3: "step bad: returned float64 for OUT, which is float32; convert it with astype",
    4: "step bad: returned the shape [1, 3] for OUT, not [1, 4]",
    5: "step bad: returned no OUT",
    6: "step bad: returned MORE, which is not one of its outputs; they are OUT",
    7: "step bad: returned NoneType; return a mapping from output names to arrays",
    8: "step bad: returned tuple; return a mapping from output names to arrays",
    9: "step bad: returned the shape [0, 4] for OUT, not [1, 4]",
    10: "step bad failed; the server's log says why",
    11: "step bad: returned list for OUT; return a NumPy array",
    12: "step bad failed; the server's log says why",
    13: "step bad: pr\\udcc3 is refused",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("steps")
    write_models(folder)
    return folder


@pytest.fixture(scope="module")
def triton(repository: Path) -> Iterator[LocalTriton]:
    with LocalTriton(repository, "rows") as server:
        yield server


@pytest.fixture(scope="module")
def client(triton: LocalTriton) -> Iterator[Client]:
    with connect(triton) as client:
        yield client


Ask = Callable[[str, Arrays], Arrays | str]


@pytest.fixture(params=["triton", "harness"])
def ask(request: pytest.FixtureRequest, repository: Path) -> Iterator[Ask]:
    """Yield what sends one request to a model of the server, or of the harness."""
    if request.param == "triton":
        client = request.getfixturevalue("client")
        yield lambda model, arrays: asked(client, model, arrays)
        return
    running: dict[str, Harness] = {}

    def ask(model: str, arrays: Arrays) -> Arrays | str:
        if model not in running:
            running[model] = Harness(repository / model / "1").__enter__()
        return running[model].execute([arrays])[0]

    yield ask
    for harness in running.values():
        harness.__exit__()


def strings(*rows: list[Any]) -> NDArray[Any]:
    return np.array(rows, dtype=np.object_)


def assert_answer(answer: Arrays | str, **expected: Any) -> None:
    assert isinstance(answer, dict), answer
    assert answer.keys() == expected.keys()
    for name, array in expected.items():
        assert answer[name].dtype == np.asarray(array).dtype
        assert answer[name].tolist() == np.asarray(array).tolist()


def test_rows_come_back(ask: Ask) -> None:
    assert_answer(ask("bad", {"IN": four(20, rows=8)}), OUT=four(40, rows=8))


@pytest.mark.parametrize("code", ERRORS)
def test_each_mistake_has_its_line(ask: Ask, code: int) -> None:
    assert ask("bad", {"IN": four(code)}) == ERRORS[code]


def test_optional_inputs_are_none(ask: Ask) -> None:
    a = np.ones((2, 3), np.float32)
    assert_answer(ask("ragged", {"A": a}), SUM=a[:, :1] * 3, WIDE=a)
    assert_answer(ask("ragged", {"B": a[:, :1], "A": a}), SUM=a[:, :1] * 4, WIDE=a)


def test_texts(ask: Ask) -> None:
    given = strings(["grüße".encode(), b""], [b"a\x00", b"b"])
    wanted = strings(["GRÜSSE".encode(), b""], [b"A\x00", b"B"])
    assert_answer(ask("texts", {"IN": given}), OUT=wanted)
    refused = ask("texts", {"IN": strings([b"a", b"a"], [b"a", b"\xff"])})
    assert "row 1, element [1] is not UTF-8 text: " in refused


def test_texts_that_triton_would_change_silently(ask: Ask) -> None:
    answer = ask("texts", {"IN": strings([b"none"])})
    assert answer == "step texts: returned NoneType in OUT, which holds bytes or str"
    answer = ask("texts", {"IN": strings([b"numpy"])})
    assert (
        answer
        == "step texts: returned <U5 for OUT, which holds bytes or str; write .astype(object)"
    )


def test_without_batch_dimension(ask: Ask) -> None:
    given = np.arange(3)
    assert_answer(ask("unbatched", {"IN": given}), OUT=given[::-1])


def test_names_that_are_no_identifiers(ask: Ask) -> None:
    given = np.ones((2, 2), np.float32)
    assert_answer(ask("odd_names", {"1": given, "in": given}), **{"class": given * 2})


def test_async_step(ask: Ask) -> None:
    assert_answer(ask("asynchronous", {"IN": four(0)}), OUT=four(0) + 1)
    assert ask("asynchronous", {"IN": four(1)}) == "step asynchronous: no 1"


@pytest.mark.skipif(not find_spec("torch"), reason="needs torch")
def test_torch_step(ask: Ask) -> None:
    given = np.arange(8, dtype=np.float32).reshape(2, 4)
    text = strings([b"a"], [b"b"])
    assert_answer(ask("torch_step", {"IN": given, "TEXT": text}), OUT=given * 2, TEXT_OUT=text)


def at_once(client: Client, model: str, requests: list[Arrays]) -> list[Arrays | str]:
    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda arrays: asked(client, model, arrays), requests))


def test_requests_share_calls(client: Client) -> None:
    """They share the more, the more arrive together. Each gets its own rows back."""
    answers = [a for _ in range(20) for a in at_once(client, "rows", [{"IN": four(0)}] * 16)]
    assert max(float(answer["OUT"][0, 0]) for answer in answers if isinstance(answer, dict)) > 1


def test_a_costly_call_is_shared_by_all_that_wait(client: Client, triton: LocalTriton) -> None:
    """Clients that ask again at once wait for one call, not for the end of one and then another."""
    before = metric(triton, "fixed_calls_total")

    def asks(i: int) -> list[Arrays | str]:
        return [asked(client, "fixed_cost", {"IN": four(i)}) for _ in range(100)]

    with ThreadPoolExecutor(6) as pool:
        all_answers = list(pool.map(asks, range(6)))
    for i, answers in enumerate(all_answers):
        for answer in answers:
            assert_answer(answer, OUT=four(2 * i))
    assert metric(triton, "fixed_calls_total") - before < 300
    assert asked(client, "fixed_cost", {"IN": four(-1)}) == "step fixed_cost: below 0"


def test_a_bad_request_fails_alone(client: Client) -> None:
    codes = [0, 20, 1, 30, 2, 40, 3, 50, 9, 60, 7, 0, 70, 80, 10, 90]
    for _ in range(20):
        answers = at_once(client, "bad", [{"IN": four(code)} for code in codes])
        for code, answer in zip(codes, answers, strict=True):
            if code in ERRORS:
                assert answer == ERRORS[code]
            else:
                assert_answer(answer, OUT=four(2 * code))


def test_mixed_shapes_and_optional_inputs(client: Client) -> None:
    requests = []
    for i in range(24):
        a = np.full((1 + i % 2, 1 + i % 3), i, np.float32)
        requests.append({"A": a, "B": a[:, :1]} if i % 4 == 0 else {"A": a})
    for _ in range(10):
        for given, answer in zip(requests, at_once(client, "ragged", requests), strict=True):
            total = given["A"].sum(axis=1, keepdims=True) + given.get("B", np.float32(0))
            assert_answer(answer, SUM=total, WIDE=given["A"])


def test_async_requests_wait_together(client: Client) -> None:
    """No call can share their shapes, and 8 waits of 50 ms take hardly longer than one."""
    requests = [{"IN": np.zeros((1, i + 2), np.float32)} for i in range(8)]
    took = []
    for _ in range(5):
        start = time.monotonic()
        answers = at_once(client, "asynchronous", requests)
        took.append(time.monotonic() - start)
        assert all(isinstance(answer, dict) for answer in answers)
    assert min(took) < 0.3


@pytest.mark.parametrize("model", ["caller", "async_caller"])
def test_calls_of_other_models(client: Client, model: str) -> None:
    assert_answer(asked(client, model, {"IN": four(20)}), OUT=four(40) + 20)
    assert (
        asked(client, model, {"IN": four(1)}) == f"step {model} failed; the server's log says why"
    )


def test_only_the_requested_output(client: Client) -> None:
    inputs = as_inputs({"A": np.ones((1, 3), np.float32)})
    wanted = [triton_grpc.InferRequestedOutput("SUM")]
    assert arrays_of(client.infer("ragged", inputs, outputs=wanted)).keys() == {"SUM"}


@pytest.mark.parametrize("model", ["stream", "async_stream"])
def test_decoupled(triton: LocalTriton, model: str) -> None:
    two = streamed(triton, model, {"IN": four(2)})
    assert [answer["OUT"][0, 0] for answer in two if isinstance(answer, dict)] == [2, 3]
    *good, error = streamed(triton, model, {"IN": four(5)})
    assert (len(good), error) == (3, f"step {model}: at most 3")
    assert streamed(triton, model, {"IN": four(0)}) == []


@pytest.mark.parametrize("model", ["oldest", "direct"])
def test_sequences_keep_their_state(client: Client, triton: LocalTriton, model: str) -> None:
    """Sequences of a direct batch leave slots empty while others go on, of which the step sees nothing."""
    failed = metric(triton, "step_failed_total", model=model)
    for i in range(4):
        for sequence in (7, 8, 9):
            if i == 1 and sequence != 9:
                continue
            position = {"sequence_id": sequence, "sequence_start": i == 0, "sequence_end": i == 3}
            answer = asked(client, model, {"IN": four(sequence)}, **position)
            times = i + 1 if sequence == 9 or i == 0 else i
            assert_answer(answer, OUT=four(sequence * times))
    assert metric(triton, "step_failed_total", model=model) == failed


def test_the_harness_adds_the_control_tensors_of_a_sequence(repository: Path) -> None:
    with Harness(repository / "direct" / "1") as model:
        assert_answer(model.execute([{"IN": four(5)}])[0], OUT=four(5))


@pytest.mark.slow
def test_cancelled_requests_are_not_run(client: Client, triton: LocalTriton) -> None:
    """The step is slow enough for the adapter to ask: of those that wait for the first, none is run."""

    def times(text: str) -> int:
        return triton.log.read_text().count(text)

    asked(client, "slow", {"IN": four(0)})
    wait_for(lambda: times("has slept") == times("sleeps"))  # their log goes through a queue
    before = times("sleeps")
    first = client.async_infer("slow", as_inputs({"IN": four(4)}), lambda result, error: None)
    wait_for(lambda: times("sleeps") == before + 1)
    waiting = [
        client.async_infer("slow", as_inputs({"IN": four(0)}), lambda result, error: None)
        for _ in range(40)  # several batches
    ]
    time.sleep(1)
    for call in waiting:
        call.cancel()
    asked(client, "slow", {"IN": four(0)})
    time.sleep(1)
    assert first
    assert times("has slept") - before == 2


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_metrics_count_rejected_failed_and_seconds(client: Client, triton: LocalTriton) -> None:
    names = ["step_rejected_total", "step_failed_total", "step_calls_total"]
    before = [metric(triton, name, model="bad", step="bad", version="1") for name in names]
    for code in (1, 1, 2, 3, 0):
        asked(client, "bad", {"IN": four(code)})
    after = [metric(triton, name, model="bad", step="bad", version="1") for name in names]
    assert [b - a for a, b in zip(before, after, strict=True)] == [2, 2, 5]
    asked(client, "slow", {"IN": four(0)})
    assert metric(triton, "step_seconds_total", model="slow") > 0.25


def test_the_log_says_why(client: Client, triton: LocalTriton) -> None:
    asked(client, "bad", {"IN": four(2)})
    asked(client, "slow", {"IN": four(0)})
    said = ("step bad failed", "/secret/path is missing", "steps/it.py", "has slept, 1")
    assert_logged(triton.log, *said)


NOT_LOADED = {
    "def call(self, IN): ...": "step a: class Step has no method __call__",
    "def __call__(self, INPUT): ...": "step a: Step.__call__: missing a required argument: 'INPUT'",
    "def __call__(self): ...": "step a: Step.__call__: got an unexpected keyword argument 'IN'",
}


@pytest.mark.parametrize("call", NOT_LOADED)
def test_a_step_that_cannot_be_called_is_not_loaded(tmp_path: Path, call: str) -> None:
    version = write_step(tmp_path, "a", call)
    with pytest.raises(HarnessError, match=NOT_LOADED[call]):
        Harness(version).__enter__()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("def call(self, IN): ...", "class Step has no method __call__"),
        (
            "exec(compile('1 / 0', '/pr\\udcc3/library.py', 'exec'))",
            "ZeroDivisionError: division by",
        ),
    ],
)
def test_triton_refuses_it_as_well(tmp_path: Path, code: str, text: str) -> None:
    write_step(tmp_path, "a", code)
    with pytest.raises(ServerError, match=text):
        LocalTriton(tmp_path, "a").__enter__()
