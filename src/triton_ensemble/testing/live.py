{% set texts = 'STRING' in graph.inputs | map(attribute='type') %}
{% set required = graph.inputs | rejectattr('optional', 'defined') | list + graph.inputs | selectattr('optional', 'false') | list %}
{% set each_alone = graph.outputs | length > 1 and not graph.decoupled and not graph.given.get('all_outputs') %}
{% set cut = max_batch_size and not graph.sequential and not graph.decoupled %}
{% set one_answer = not graph.sequential and not graph.decoupled %}
{% set batching = graph.observed.batching if cut else [] %}
# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Smoke tests of the served ensemble."""

from __future__ import annotations

{% if graph.bf16 %}
import os
{% endif %}
import time
from collections.abc import Callable
{% if batching %}
from concurrent.futures import ThreadPoolExecutor
{% endif %}
{% if texts or one_answer %}
from contextlib import suppress
{% endif %}
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tritonclient.utils import triton_to_np_dtype  # type: ignore[import-untyped]

from {{ package }} import Client, InferenceError, InvalidInput
from {{ package }}.tensors import {{ 'INPUTS, MAX_BATCH_SIZE, MODEL, OUTPUTS, Tensor' if max_batch_size else 'INPUTS, MODEL, OUTPUTS, Tensor' }}
from triton_ensemble.samples import golden
{% if one_answer %}
from triton_ensemble.samples.compare import Values
{% endif %}
from triton_ensemble.samples.files import {{ 'Sample, blank, samples' if one_answer else 'Sample, samples' }}

Arrays = dict[str, NDArray[Any]]
Count = Callable[[str, str], float]

SAMPLES = samples()
SAMPLE = SAMPLES[0]
{% if required %}
REQUIRED = next(name for name, tensor in INPUTS.items() if not tensor.optional)
{% endif %}
{% if one_answer %}
VALUES = Values(golden.tolerances())
{% endif %}


def one_row(sample: Sample) -> Arrays:
    """The first row of a sample{{ '' if max_batch_size else ', which is all of it' }}."""
{% if max_batch_size %}
    return {name: array[:1] for name, array in sample.inputs.items()}
{% else %}
    return sample.inputs
{% endif %}


ROW = one_row(SAMPLE)
{% if one_answer %}
OTHERS = [one_row(sample) for sample in SAMPLES[1:4]] or [
    {name: blank(name, 1, value) for name in INPUTS} for value in (0, 1)
]
{% endif %}
{% if max_batch_size %}


def repeated(row: Arrays, rows: int) -> Arrays:
    return {name: np.repeat(array, rows, axis=0) for name, array in row.items()}
{% endif %}


def sent(client: Client, inputs: Arrays) -> list[Arrays]:
    """The answers to a request as it is: the client neither checks nor cuts it."""
{% if graph.decoupled %}
    return list(client.send_stream(inputs))
{% else %}
    return [client.send(inputs)]
{% endif %}


def fits(tensor: Tensor, array: NDArray[Any]) -> bool:
    """Triton does not check what the last step returns."""
    dims = array.shape{{ '[1:]' if max_batch_size }}
    is_bf16 = tensor.datatype == "BF16"  # which the client makes FP32
    dtype = np.dtype(np.float32 if is_bf16 else triton_to_np_dtype(tensor.datatype))
    sizes = zip(tensor.dims, dims, strict=False)
    return (
        array.dtype == dtype
        and len(dims) == len(tensor.dims)
        and all(want in (-1, have) for want, have in sizes)
    )


@pytest.fixture(scope="session")
def alone(client: Client) -> list[Arrays] | InferenceError:
    """The answers to the first row of the first sample, or why there are none."""
    try:
        return sent(client, ROW)
    except InferenceError as error:
        return error


@pytest.fixture(autouse=True)
def only_answered(request: pytest.FixtureRequest) -> None:
    """Where the server refuses the first sample, its own test says so, and not each."""
    if request.function is test_is_ready:
        return
{% if graph.bf16 %}
    if "TRITON_URL" not in os.environ:
        pytest.skip("the local Triton can't run BF16 tensors; set TRITON_URL to a server that can")
{% endif %}
    answer = request.getfixturevalue("alone")
    if request.function is not test_answers_samples and isinstance(answer, InferenceError):
        pytest.skip(f"sample {SAMPLE.name} is not answered: {answer}")


def test_is_ready(client: Client) -> None:
    assert client.ready()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_answers_samples(client: Client, alone: object, sample: Sample) -> None:
    """All outputs, of the declared types, with the values of the sample and of `make golden`."""
    if sample is SAMPLE and isinstance(alone, InferenceError):
        pytest.fail(f"sample {sample.name}: {alone}", pytrace=False)
    try:
        answers = list(client.answers(sample.inputs))
    except InferenceError as error:
        raise pytest.fail.Exception(f"sample {sample.name}: {error}", pytrace=False) from None
{% if not graph.decoupled %}
    assert answers
{% endif %}
    for answer in answers:
        assert answer.keys() == OUTPUTS.keys()
        for name, array in answer.items():
            assert fits(OUTPUTS[name], array), f"{name} is {array.dtype}{list(array.shape)}"
    if problem := golden.problem(sample, answers):
        pytest.fail(problem, pytrace=False)
{% if each_alone %}


@pytest.mark.parametrize("name", OUTPUTS)
def test_answers_each_output_alone(client: Client, name: str) -> None:
    answer = client.infer(ROW, outputs=[name])
    assert list(answer) == [name]
    assert fits(OUTPUTS[name], answer[name])
{% endif %}
{% if one_answer %}


def same(what: str, answer: Arrays, wanted: Arrays, client: Client) -> None:
    if problem := VALUES.problem(what, answer, wanted, lambda: sent(client, ROW)):
        pytest.fail(problem, pytrace=False)


def test_answers_a_request_whatever_came_before(client: Client, alone: list[Arrays]) -> None:
    """Each instance of a model may have had the same one before: the more often, the more of them."""
    start = time.monotonic()
    for times in (1, 2, 3):
        if times > 1 and time.monotonic() - start > 10:
            return
        for other in OTHERS * times:
            with suppress(InferenceError):
                sent(client, other)
        [answer] = sent(client, ROW)
        same("after other requests a row is answered otherwise:", answer, alone[0], client)
{% endif %}
{% if cut %}


@pytest.mark.parametrize("rows", sorted({1, MAX_BATCH_SIZE}))
def test_answers_as_many_rows_as_it_gets(client: Client, alone: list[Arrays], rows: int) -> None:
    [answer] = sent(client, repeated(ROW, rows))
    same(f"{rows} equal rows are answered unlike one:", answer, repeated(alone[0], rows), client)


def test_more_rows_are_several_requests(client: Client, alone: list[Arrays]) -> None:
    rows = MAX_BATCH_SIZE + 1
    answer = client.infer(repeated(ROW, rows))
    same(f"{rows} equal rows are answered unlike one:", answer, repeated(alone[0], rows), client)
{% endif %}


def other_type(array: NDArray[Any]) -> NDArray[Any]:
    return np.zeros(array.shape, np.int32 if array.dtype == np.float64 else np.float64)


WRONG: dict[str, Callable[[], Arrays]] = {
    "type": lambda: {name: other_type(array) for name, array in ROW.items()},
    "shape": lambda: {name: array[..., None] for name, array in ROW.items()},
    "extra": lambda: {**ROW, "no such input": np.zeros((1, 1), np.float32)},
{% if required %}
    "missing": lambda: {name: array for name, array in ROW.items() if name != REQUIRED},
{% endif %}
{% if max_batch_size %}
    "no rows": lambda: repeated(ROW, 0),
    "too many rows": lambda: repeated(ROW, MAX_BATCH_SIZE + 1),
{% endif %}
}


@pytest.mark.parametrize("what", WRONG)
def test_refuses_what_is_wrong_and_goes_on(client: Client, what: str) -> None:
    with pytest.raises(InvalidInput):
        sent(client, WRONG[what]())
    sent(client, ROW)
{% if texts %}


@pytest.mark.parametrize(
    "text", [b"", "é 名 🙂".encode(), b"\xff\x00"], ids=["empty", "beyond ASCII", "no text"]
)
def test_answers_or_refuses_any_text_and_goes_on(client: Client, text: bytes) -> None:
    inputs = {
        name: np.full_like(array, text) if INPUTS[name].datatype == "BYTES" else array
        for name, array in ROW.items()
    }
    with suppress(InvalidInput):
        sent(client, inputs)
    sent(client, ROW)
{% endif %}


def rises(counter: Callable[[], float], above: float) -> bool:
    """Whether a counter does so soon: Triton counts a request after its answer."""
    end = time.monotonic() + 5
    while counter() <= above and time.monotonic() < end:
        time.sleep(0.02)
    return counter() > above


def test_metrics_count_requests(client: Client, count: Count) -> None:
    before = count("nv_inference_request_success", MODEL)
    sent(client, ROW)
    assert rises(lambda: count("nv_inference_request_success", MODEL), before)
{% if graph.observed.cached and not graph.decoupled %}


CACHED = {{ graph.observed.cached | to_json }}


def test_an_equal_request_is_found_in_a_cache(client: Client, count: Count) -> None:
    """Without `--cache-config` the server caches nothing, and says nothing."""

    def hits() -> float:
        return sum(count("nv_cache_num_hits_per_model", model) for model in CACHED)

    before = hits()
    for _ in range(2):
        sent(client, ROW)
    assert rises(hits, before)
{% endif %}
{% if batching %}


@pytest.mark.parametrize("model", {{ batching | to_json }})
def test_concurrent_requests_share_executions(client: Client, count: Count, model: str) -> None:
    """Of some that come at once, as chance has it: fewer, and less often, where an answer takes long."""
    requests, executions = (f"nv_inference_{name}" for name in ("request_success", "exec_count"))
    start = time.monotonic()
    client.send(ROW)
    at_once = min(64, max(8, int(16 / (time.monotonic() - start))))
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
{% endif %}
