"""Live tests of the served ensemble, over each protocol. A project without samples sends zeros."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import numpy as np
import pytest
from tritonclient.utils import triton_to_np_dtype  # type: ignore[import-untyped]

from triton_ensemble.facts.client import (
    Array,
    Arrays,
    Client,
    Tensor,
    package,
)
from triton_ensemble.testing import golden
from triton_ensemble.testing.compare import Values
from triton_ensemble.testing.files import (
    Sample,
    fill_inputs,
    samples,
    way_out,
)
from triton_ensemble.testing.under_test import PROJECT, only_where

Count = Callable[[str, str], float]
T = TypeVar("T")

InferenceError: type[Exception] = package(PROJECT).InferenceError
InvalidInput: type[Exception] = package(PROJECT).InvalidInput
OUTPUTS: dict[str, Tensor] = package(PROJECT, "tensors").OUTPUTS
REQUIRED = [tensor.name for tensor in PROJECT.inputs if not tensor.optional]
REQUIRED_OUTPUTS = {name for name, tensor in OUTPUTS.items() if not tensor.optional}
TEXTS = [tensor.name for tensor in PROJECT.inputs if tensor.datatype == "BYTES"]
MAX_BATCH_SIZE: int = package(PROJECT, "tensors").MAX_BATCH_SIZE

ONE_ANSWER = not PROJECT.sequential and not PROJECT.decoupled
CUT = ONE_ANSWER and MAX_BATCH_SIZE > 0  # into requests of at most MAX_BATCH_SIZE rows
EACH_ALONE = len(PROJECT.outputs) > 1 and not PROJECT.decoupled and not PROJECT.all_outputs


def one_row(sample: Sample) -> Arrays:
    """Return the first row of a sample, or all of it without a batch dimension."""
    if not MAX_BATCH_SIZE:
        return sample.inputs
    return {name: array[:1] for name, array in sample.inputs.items()}


def repeat_row(row: Arrays, rows: int) -> Arrays:
    """Return a row as often as `rows` says, as one request."""
    return {name: np.repeat(array, rows, axis=0) for name, array in row.items()}


SAMPLES = samples(PROJECT)
SAMPLE = SAMPLES[0]
ROW = one_row(SAMPLE)
ROW_BYTES = sum(array.nbytes for array in ROW.values())
MOST_BYTES = 256 << 20  # of a request, of which client and server make copies
MOST_ROWS = max(1, min(MAX_BATCH_SIZE, 256, MOST_BYTES // max(1, ROW_BYTES)))
FILLS_A_BATCH = MOST_ROWS >= MAX_BATCH_SIZE
OTHERS = [one_row(sample) for sample in SAMPLES[1:4]] or [fill_inputs(PROJECT, i) for i in (0, 1)]
VALUES = Values(golden.tolerances(PROJECT))


def send_unchecked(client: Client, inputs: Arrays) -> list[Arrays]:
    """Return the answers to a request as it is: the client neither checks nor cuts it."""
    return list(client.send_stream(inputs)) if PROJECT.decoupled else [client.send(inputs)]


def not_refused(what: str, answer: Callable[[], T]) -> T:
    """Return an answer, or fail with a line if the server refuses the request."""
    try:
        return answer()
    except InferenceError as error:
        raise pytest.fail.Exception(f"{what}: {error}", pytrace=False) from None


def fits(name: str, array: Array) -> bool:
    """Return whether an output has its declared type and dims: Triton does not check what the last step returns."""
    tensor = OUTPUTS[name]
    dims = array.shape[1:] if MAX_BATCH_SIZE else array.shape
    is_bf16 = tensor.datatype == "BF16"  # which the client makes FP32
    dtype = np.dtype(np.float32 if is_bf16 else triton_to_np_dtype(tensor.datatype))
    sizes = zip(tensor.dims, dims, strict=False)
    return (
        array.dtype == dtype
        and len(dims) == len(tensor.dims)
        and all(want in (-1, have) for want, have in sizes)
    )


@pytest.fixture(scope="session")
def alone(client: Client) -> list[Arrays] | Exception:
    """Return the answers to the first row of the first sample, or the error if it is not answered."""
    try:
        return send_unchecked(client, ROW)
    except InferenceError as error:
        return error


@pytest.fixture(autouse=True)
def only_answered(request: pytest.FixtureRequest) -> None:
    """If the server refuses the first sample, let one test fail instead of all."""
    if request.function is test_is_ready:
        return
    if PROJECT.bf16 and "TRITON_URL" not in os.environ:
        pytest.skip("the local Triton can't run BF16 tensors; set TRITON_URL to a server that can")
    answer = request.getfixturevalue("alone")
    if request.function is not test_answers_samples and isinstance(answer, InferenceError):
        pytest.skip(f"sample {SAMPLE.name} is not answered: {answer}")


def test_is_ready(client: Client) -> None:
    assert client.ready()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_answers_samples(client: Client, alone: object, sample: Sample) -> None:
    """Expect all outputs, of the declared types, with the values of the sample and of `make golden`."""
    if sample is SAMPLE and isinstance(alone, InferenceError):
        pytest.fail(f"sample {sample.name}: {alone}{way_out(PROJECT, sample)}", pytrace=False)
    answers = not_refused(f"sample {sample.name}", lambda: list(client.answers(sample.inputs)))
    assert answers or PROJECT.decoupled
    for answer in answers:
        assert REQUIRED_OUTPUTS <= answer.keys() <= OUTPUTS.keys()
        for name, array in answer.items():
            assert fits(name, array), f"{name} is {array.dtype}{list(array.shape)}"
    if problem := golden.problem(PROJECT, sample, answers):
        pytest.fail(problem, pytrace=False)


@only_where(EACH_ALONE)
@pytest.mark.parametrize("name", OUTPUTS)
def test_answers_each_output_alone(client: Client, name: str) -> None:
    answer = client.infer(ROW, outputs=[name])
    assert REQUIRED_OUTPUTS & {name} <= answer.keys() <= {name}
    assert all(fits(name, array) for array in answer.values())


def same(what: str, answer: Arrays, wanted: Arrays, client: Client) -> None:
    """Fail unless an answer is the wanted one, but for outputs that differ between equal requests."""
    if problem := VALUES.problem(what, answer, wanted, lambda: send_unchecked(client, ROW)):
        pytest.fail(problem, pytrace=False)


@only_where(ONE_ANSWER)
def test_answers_a_request_whatever_came_before(client: Client, alone: list[Arrays]) -> None:
    """Try it several times: each instance of a model may have had the same request before."""
    start = time.monotonic()
    for times in (1, 2, 3):
        if times > 1 and time.monotonic() - start > 10:
            return
        for other in OTHERS * times:
            with suppress(InferenceError):
                send_unchecked(client, other)
        [answer] = send_unchecked(client, ROW)
        same("after other requests a row is answered otherwise:", answer, alone[0], client)


@only_where(CUT)
@pytest.mark.parametrize("rows", sorted({1, MOST_ROWS}))
def test_answers_as_many_rows_as_it_gets(client: Client, alone: list[Arrays], rows: int) -> None:
    if rows == MOST_ROWS and not FILLS_A_BATCH:
        message = f"max_batch_size is {MAX_BATCH_SIZE}; no test sends more than {rows} rows"
        warnings.warn(message, stacklevel=2)
    [answer] = not_refused(f"{rows} rows", lambda: send_unchecked(client, repeat_row(ROW, rows)))
    same(f"{rows} equal rows are answered unlike one:", answer, repeat_row(alone[0], rows), client)


@only_where(CUT and FILLS_A_BATCH)
def test_more_rows_are_several_requests(client: Client, alone: list[Arrays]) -> None:
    rows = MAX_BATCH_SIZE + 1
    answer = not_refused(f"{rows} rows", lambda: client.infer(repeat_row(ROW, rows)))
    same(f"{rows} equal rows are answered unlike one:", answer, repeat_row(alone[0], rows), client)


def other_type(array: Array) -> Array:
    """Return zeros of the same shape and another type."""
    return np.zeros(array.shape, np.int32 if array.dtype == np.float64 else np.float64)


WRONG: dict[str, Callable[[], Arrays]] = {
    "type": lambda: {name: other_type(array) for name, array in ROW.items()},
    "shape": lambda: {name: array[..., None] for name, array in ROW.items()},
    "extra": lambda: {**ROW, "no such input": np.zeros((1, 1), np.float32)},
}
if REQUIRED:
    # Without optional ones too: Triton counts inputs, and one of those would stand for what is missing.
    WRONG["missing"] = lambda: {name: ROW[name] for name in REQUIRED[1:]}
if MAX_BATCH_SIZE:
    WRONG["no rows"] = lambda: repeat_row(ROW, 0)
if MAX_BATCH_SIZE and FILLS_A_BATCH:
    WRONG["too many rows"] = lambda: repeat_row(ROW, MAX_BATCH_SIZE + 1)


@pytest.mark.parametrize("what", WRONG)
def test_refuses_what_is_wrong_and_goes_on(client: Client, what: str) -> None:
    with pytest.raises(InvalidInput):
        send_unchecked(client, WRONG[what]())
    send_unchecked(client, ROW)


@only_where(bool(TEXTS))
@pytest.mark.parametrize(
    "text", [b"", "é 名 🙂".encode(), b"\xff\x00"], ids=["empty", "beyond ASCII", "no text"]
)
def test_answers_or_refuses_any_text_and_goes_on(client: Client, text: bytes) -> None:
    inputs = {
        name: np.full_like(array, text) if name in TEXTS else array for name, array in ROW.items()
    }
    with suppress(InvalidInput):
        send_unchecked(client, inputs)
    send_unchecked(client, ROW)


def rises(counter: Callable[[], float], above: float) -> bool:
    """Return whether a counter rises above a value within 5 s: Triton counts a request after its answer."""
    end = time.monotonic() + 5
    while counter() <= above and time.monotonic() < end:
        time.sleep(0.02)
    return counter() > above


def test_metrics_count_requests(client: Client, count: Count) -> None:
    before = count("nv_inference_request_success", PROJECT.ensemble)
    send_unchecked(client, ROW)
    assert rises(lambda: count("nv_inference_request_success", PROJECT.ensemble), before)


@only_where(bool(PROJECT.cached_models) and not PROJECT.decoupled)
def test_an_equal_request_is_found_in_a_cache(client: Client, count: Count) -> None:
    """Expect a hit: without `--cache-config` the server caches nothing, and says nothing."""

    def hits() -> float:
        return sum(count("nv_cache_num_hits_per_model", model) for model in PROJECT.cached_models)

    before = hits()
    for _ in range(2):
        send_unchecked(client, ROW)
    assert rises(hits, before)


@only_where(CUT and bool(PROJECT.batching_models))
@pytest.mark.parametrize("model", PROJECT.batching_models)
def test_concurrent_requests_share_executions(client: Client, count: Count, model: str) -> None:
    """Send up to 64 requests at once, and again until some share an execution.

    If an answer takes long, send fewer requests, and less often.
    """
    requests, executions = (f"nv_inference_{name}" for name in ("request_success", "exec_count"))
    start = time.monotonic()
    client.send(ROW)
    at_once = min(64, max(8, int(4 / (time.monotonic() - start))))
    for _ in range(20):
        before = count(requests, model), count(executions, model)
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(lambda _: client.send(ROW), range(at_once)))
        assert rises(lambda: count(requests, model), before[0] + at_once - 1)
        time.sleep(0.1)  # executions are counted last
        if count(executions, model) - before[1] < at_once:
            return
        if time.monotonic() - start > 60:
            break
    pytest.fail(f"{model}: of {at_once} requests, up to 32 at once, each was executed alone")
