"""The adapter without Triton: what a step gets and may return, and what each request is answered."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import fake_triton
import numpy as np
import pytest
from fake_triton import Adapter, Request

from triton_step import Context, InvalidRequest, SequencePosition

Serve = Callable[..., Any]
ARGUMENTS = {"model_name": "m", "model_version": "3", "model_instance_name": "m_0"}
ON_CPU = {**ARGUMENTS, "model_instance_kind": "CPU", "model_instance_device_id": "0"}


@pytest.fixture(scope="module")
def adapter() -> Iterator[Adapter]:
    with pytest.MonkeyPatch.context() as patch:
        yield fake_triton.install(patch)


@pytest.fixture
def serve(adapter: Adapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Return what serves a function as a step with the inputs A and B and the output Y."""
    adapter.logged.clear()
    monkeypatch.setattr(adapter.model, "VERSION_FOLDER", tmp_path)

    def serve(function: Any, **config: Any) -> Any:
        inputs = config.pop("inputs", ("A",))
        manifest = {
            "name": "s",
            "module": "some",
            "arguments": {name.lower(): name for name in inputs},
            "results": {"y": "Y"},
            "arrays": "numpy",
            "calls": {},
        }
        (tmp_path / "step.json").write_text(json.dumps(manifest))
        optional = config.pop("optional", ())
        declared = {
            "max_batch_size": 8,
            "parameters": {"limit": {"string_value": "5"}},
            "input": [
                {"name": n, "data_type": "TYPE_FP32", "dims": ["2"], "optional": n in optional}
                for n in inputs
            ],
            "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": ["2"]}],
            **config,
        }
        module: Any = ModuleType("steps.some")
        module.Step = step_class(function)
        monkeypatch.setitem(sys.modules, "steps", ModuleType("steps"))
        monkeypatch.setitem(sys.modules, "steps.some", module)
        model = adapter.model.TritonPythonModel()
        model.initialize({**ON_CPU, "model_config": json.dumps(declared)})
        return model

    return serve


def step_class(function: Any) -> Any:
    """Return a class Step whose call is a function."""

    def keep(self: Any, context: Context) -> None:
        self.context = context

    return type("Step", (), {"__init__": keep, "__call__": function})


def rows(*first: float) -> Any:
    return np.array([[each, each] for each in first], np.float32)


def double(self: Any, a: Any) -> dict[str, Any]:
    return {"Y": 2 * a}


def test_a_request_is_answered(serve: Serve) -> None:
    [response] = serve(double).execute([Request(A=rows(1, 2))])
    assert response.said is None
    assert response.arrays["Y"].tolist() == rows(2, 4).tolist()


def test_requests_share_a_call_and_each_gets_its_rows(serve: Serve) -> None:
    calls: list[int] = []

    def counted(self: Any, a: Any) -> dict[str, Any]:
        calls.append(len(a))
        return double(self, a)

    model = serve(counted)
    for _ in range(3):  # the first tells how long a request takes alone
        calls.clear()
        responses = model.execute([Request(A=rows(1)), Request(A=rows(2, 3)), Request(A=rows(4))])
        if calls == [4]:
            break
    assert calls == [4]
    answers = [response.arrays["Y"][:, 0].tolist() for response in responses]
    assert answers == [[2], [4, 6], [8]]


def test_ragged_requests_share_a_call_with_those_of_their_shape(serve: Serve) -> None:
    """Triton passes requests of different shapes together, each with a tensor of its own."""
    calls: list[tuple[int, ...]] = []

    def counted(self: Any, a: Any) -> dict[str, Any]:
        calls.append(a.shape)
        return double(self, a)

    tensors = [{"name": "A", "data_type": "TYPE_FP32", "dims": ["-1"], "allow_ragged_batch": True}]
    model = serve(counted, input=tensors, output=[tensors[0] | {"name": "Y"}])
    sizes = [2, 3, 2, 3]
    for _ in range(3):  # the first tells how long a request takes alone
        calls.clear()
        responses = model.execute([Request(A=np.ones((1, n), np.float32)) for n in sizes])
        if len(calls) == 2:
            break
    assert calls == [(2, 2), (2, 3)]
    assert [response.arrays["Y"].shape for response in responses] == [(1, n) for n in sizes]


@pytest.mark.parametrize("batch", [0, 8])
def test_rows_are_not_joined_without_a_batch_dimension(serve: Serve, batch: int) -> None:
    def first(self: Any, a: Any) -> dict[str, Any]:
        return {"Y": a if batch else a[:2]}

    model = serve(first, max_batch_size=batch)
    array = rows(1) if batch else np.zeros(2, np.float32)
    responses = model.execute([Request(A=array), Request(A=array)])
    assert [response.arrays["Y"].shape for response in responses] == [array.shape] * 2


def test_a_bad_request_is_refused_alone(serve: Serve) -> None:
    def choosy(self: Any, a: Any) -> dict[str, Any]:
        if (a < 0).any():
            raise InvalidRequest("must not be negative")
        return double(self, a)

    model = serve(choosy)
    responses = model.execute([Request(A=rows(1)), Request(A=rows(-1)), Request(A=rows(2))])
    assert [response.said for response in responses] == [
        None,
        ("invalid", "step s: must not be negative"),
        None,
    ]
    assert model._step.rejected.value == 1
    assert model._step.failed.value == 0


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ((1, 2, 3), "step s failed at row 1; the server's log says why"),
        ((2, 1), "step s failed at row 0; the server's log says why"),
        ((2,), "step s failed; the server's log says why"),
        ((4, 4, 1), "step s failed; the server's log says why"),  # only rows together fail
    ],
)
def test_a_step_that_fails_has_its_row_named_and_its_text_in_the_log_alone(
    serve: Serve, adapter: Adapter, first: tuple[float, ...], said: str
) -> None:
    def fail(self: Any, a: Any) -> Any:
        if (a == 2).any() or (a[:, 0] == 4).sum() > 1:
            raise OSError("/secret/path")
        return double(self, a)

    model = serve(fail)
    [response] = model.execute([Request(A=rows(*first))])
    assert response.said == ("internal", said)
    [(level, text)] = adapter.logged
    assert level == "error"
    assert text.startswith(f"{said.partition(';')[0]}\n")
    assert "/secret/path" in text
    assert model._step.failed.value == 1


def test_a_refused_request_is_not_asked_row_by_row(serve: Serve) -> None:
    calls: list[int] = []

    def refuse(self: Any, a: Any) -> Any:
        calls.append(len(a))
        raise InvalidRequest("no")

    serve(refuse).execute([Request(A=rows(1, 2, 3))])
    assert calls == [3]


def test_the_row_at_fault_is_searched_for_a_second_at_most(
    serve: Serve, adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter.model, "SEARCH_SECONDS", 0)
    calls: list[int] = []

    def fail(self: Any, a: Any) -> Any:
        calls.append(len(a))
        if len(a) > 1:
            raise KeyError
        return double(self, a)

    serve(fail).execute([Request(A=rows(1, 2, 3))])
    assert calls == [3, 1]


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ([1], "returned list; return a mapping from output names to arrays"),
        ({}, "returned no Y"),
        ({"Y": rows(1), "Z": 1}, "returned Z, which is not one of its outputs; they are Y"),
        ({"Z": rows(1)}, "returned Z, which is not one of its outputs; did you mean Y?"),
        ({"Y": [1]}, "returned list for Y; return a NumPy array"),
        ({"Y": rows(1).astype("int8")}, "returned int8 for Y, which is float32; convert it"),
        ({"Y": rows(1, 2)}, "returned the shape [2, 2] for Y, not [1, 2]"),
        ({"Y": rows(1)[0]}, "returned the shape [2] for Y, not [1, 2]"),
        ({"Y": rows(1)[:, :1]}, "returned the shape [1, 1] for Y, not [1, 2]"),
    ],
)
def test_a_step_that_breaks_its_contract(serve: Serve, returned: Any, text: str) -> None:
    [response] = serve(lambda self, a: returned).execute([Request(A=rows(1))])
    assert response.said[0] == "internal"
    assert response.said[1].startswith(f"step s: {text}")


def test_a_dataclass_is_returned_by_the_fields_names(serve: Serve) -> None:
    @dataclass
    class Outputs:
        y: Any

    [response] = serve(lambda self, a: Outputs(a)).execute([Request(A=rows(1))])
    assert response.arrays["Y"].tolist() == rows(1).tolist()


def test_arrays_of_a_request_can_not_be_written(serve: Serve) -> None:
    def write(self: Any, a: Any) -> dict[str, Any]:
        a += 1
        return {"Y": a}

    [response] = serve(write).execute([Request(A=rows(1))])
    assert response.said[0] == "internal"


def test_optional_inputs(serve: Serve) -> None:
    def add(self: Any, a: Any, b: Any) -> dict[str, Any]:
        return {"Y": a if b is None else a + b}

    model = serve(add, inputs=("A", "B"), optional=("B",))
    both, one, none = Request(A=rows(1), B=rows(2)), Request(A=rows(1)), Request(B=rows(1))
    for requests in ([both], [one], [none], [both, one, none], [one, one, both]):
        responses = model.execute(requests)
        known = {both: 3.0, one: 1.0}
        for request, response in zip(requests, responses, strict=True):
            if request is none:
                assert response.said == ("invalid", "input 'A' is missing")
            else:
                assert response.arrays["Y"][0, 0] == known[request]


def test_a_missing_input_is_refused_alone_where_requests_share_calls(
    serve: Serve, adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(self: Any, a: Any, b: Any) -> dict[str, Any]:
        return {"Y": a}

    monkeypatch.setattr(adapter.pace.Pace, "together", lambda _: True)
    model = serve(add, inputs=("A", "B"), optional=("B",))
    responses = model.execute([Request(A=rows(1)), Request(B=rows(1)), Request(A=rows(2))])
    said = [response.said for response in responses]
    assert said == [None, ("invalid", "input 'A' is missing"), None]


def test_requests_are_answered_before_a_pause(
    serve: Serve, adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []
    monkeypatch.setattr(adapter.pace.Pace, "together", lambda _: True)
    monkeypatch.setattr(adapter.pace.Pace, "pause", lambda *_: 0.0007)
    monkeypatch.setattr(adapter.model, "sleep", paused.append)
    requests = [Request(A=rows(1)), Request(A=rows(2))]
    assert serve(double).execute(requests) == [None, None]
    answers = [response.arrays["Y"][0, 0] for each in requests for response in each.sender.sent]
    assert answers == [2, 4]
    assert [each.sender.flags for each in requests] == [[1], [1]]
    assert paused == [0.0007]
    as_many_as_fit = [Request(A=rows(1)) for _ in range(8)]
    assert None not in serve(double).execute(as_many_as_fit)


def test_one_of_a_group_that_is_cancelled_ends_the_group(
    serve: Serve, adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter.pace.Pace, "together", lambda _: True)
    model = serve(double)
    model._slow = True
    requests = [Request(A=rows(1)), Request(A=rows(2))]
    requests[1].cancelled = True

    def stay_slow(seconds: float, calls: int = 1) -> None:
        model._slow = True

    monkeypatch.setattr(model._step, "count", stay_slow)
    said = [response.said for response in model.execute(requests)]
    assert said == [None, ("left", "cancelled")]


@pytest.mark.parametrize(
    ("dims", "shape", "fits"),
    [
        (["-1"], (1, 5), True),
        (["-1"], (2, 5), False),
        (["-1", "2"], (1, 7, 2), True),
        (["-1", "2"], (1, 7, 3), False),
        (["-1", "2"], (1, 7), False),
    ],
)
def test_a_dim_that_varies(
    serve: Serve, dims: list[str], shape: tuple[int, ...], fits: bool
) -> None:
    output = {"name": "Y", "data_type": "TYPE_FP32", "dims": dims}
    model = serve(lambda self, a: {"Y": np.zeros(shape, np.float32)}, output=[output])
    [response] = model.execute([Request(A=rows(1))])
    assert (response.said is None) == fits


def test_rows_of_other_shapes_are_not_joined(serve: Serve) -> None:
    tensors = [{"name": "A", "data_type": "TYPE_FP32", "dims": ["-1"]}]
    seen: set[tuple[int, ...]] = set()

    def total(self: Any, a: Any) -> dict[str, Any]:
        seen.add(a.shape[1:])
        return {"Y": np.repeat(a.sum(axis=1, keepdims=True), 2, axis=1)}

    model = serve(total, input=tensors)
    arrays = [np.ones((1, size), np.float32) for size in (3, 1, 3)]
    responses = model.execute([Request(A=array) for array in arrays])
    assert [response.arrays["Y"][0, 0] for response in responses] == [3, 1, 3]
    assert seen == {(3,), (1,)}


async def double_later(self: Any, a: Any) -> dict[str, Any]:
    return {"Y": a * 2}


def double_as_stream(self: Any, a: Any) -> Iterator[dict[str, Any]]:
    yield {"Y": a * 2}


async def double_later_as_stream(self: Any, a: Any) -> AsyncIterator[dict[str, Any]]:
    yield {"Y": a * 2}


FORMS = [double, double_later, double_as_stream, double_later_as_stream]


def respond(serve: Serve, form: Any, request: Request, **config: Any) -> Any:
    """Return what a slow step said to a request."""
    is_stream = form.__name__.endswith("stream")
    model = serve(form, model_transaction_policy={"decoupled": is_stream}, **config)
    model._slow = True
    returned = model.execute([request])
    [response] = request.sender.sent[:1] if is_stream else returned
    assert not is_stream or request.sender.flags[-1] == 1
    return response.said


@pytest.mark.parametrize("form", FORMS)
def test_a_cancelled_request_of_a_slow_step_is_not_computed(serve: Serve, form: Any) -> None:
    request = Request(A=rows(1))
    request.cancelled = True
    assert respond(serve, form, request) == ("left", "cancelled")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("action", ["REJECT", "DELAY"])
def test_a_request_whose_time_is_over_is_not_computed_unless_it_is_delayed(
    serve: Serve, adapter: Adapter, monkeypatch: pytest.MonkeyPatch, form: Any, action: str
) -> None:
    monkeypatch.setattr(adapter.model, "perf_counter", itertools.count().__next__)
    policy = {"default_queue_policy": {"timeout_action": action}}
    said = [
        respond(serve, form, Request(timeout_us=timeout_us, A=rows(1)), dynamic_batching=policy)
        for timeout_us in (500_000, 5_000_000, 0)
    ]
    over = ("unavailable", "Request timeout expired") if action == "REJECT" else None
    assert said == [over, None, None]


def test_where_a_request_stands_in_its_sequence(serve: Serve) -> None:
    seen: list[SequencePosition] = []

    def note(self: Any, position: SequencePosition, a: Any) -> dict[str, Any]:
        seen.append(position)
        return {"Y": a}

    model = serve(note, sequence_batching={})
    requests = [Request(7, flags, A=rows(1)) for flags in (1, 0, 2, 3)]
    empty = Request(0, A=rows(1))
    responses = model.execute([*requests, empty])
    assert seen == [(7, True, False), (7, False, False), (7, False, True), (7, True, True)]
    assert responses[-1].arrays == {}
    assert responses[-1].said is None


def test_an_async_step_answers_side_by_side(serve: Serve) -> None:
    meeting: list[int] = []

    async def wait(self: Any, a: Any) -> dict[str, Any]:
        meeting.append(1)
        while len(meeting) < 2:
            await asyncio.sleep(0)
        return {"Y": a}

    model = serve(wait)
    responses = model.execute([Request(A=rows(1)), Request(A=rows(2))])
    assert [response.arrays["Y"][0, 0] for response in responses] == [1, 2]
    model.finalize()
    assert model._loop.is_closed()


STREAMS = {"max_batch_size": 0, "model_transaction_policy": {"decoupled": True}}


def test_a_decoupled_step_answers_many_times(serve: Serve) -> None:
    def count(self: Any, a: Any) -> Iterator[dict[str, Any]]:
        for factor in (1, 2):
            yield {"Y": factor * a}

    request = Request(A=np.ones(2, np.float32))
    assert serve(count, **STREAMS).execute([request]) is None
    assert [response.arrays["Y"][0] for response in request.sender.sent] == [1, 2]
    assert request.sender.flags == [0, 0, 1]


def test_an_async_decoupled_step(serve: Serve) -> None:
    async def count(self: Any, a: Any) -> Any:
        for factor in (1, 2):
            yield {"Y": factor * a}

    request = Request(A=np.ones(2, np.float32))
    assert serve(count, **STREAMS).execute([request]) is None
    assert [response.arrays["Y"][0] for response in request.sender.sent] == [1, 2]
    assert request.sender.flags == [0, 0, 1]


def test_an_error_ends_a_stream(serve: Serve) -> None:
    def fail(self: Any, a: Any) -> Iterator[dict[str, Any]]:
        yield {"Y": a}
        raise InvalidRequest("no more")

    request = Request(A=np.ones(2, np.float32))
    serve(fail, **STREAMS).execute([request])
    assert [response.said for response in request.sender.sent] == [
        None,
        ("invalid", "step s: no more"),
    ]
    assert request.sender.flags[-1] == 1


def test_a_decoupled_step_that_returns(serve: Serve) -> None:
    request = Request(A=np.ones(2, np.float32))
    serve(double, **STREAMS).execute([request])
    [response] = request.sender.sent
    assert response.said == ("internal", "step s: returned dict; a decoupled step yields mappings")


def test_what_a_step_is_told(serve: Serve, tmp_path: Path) -> None:
    contexts: list[Context] = []

    def look(self: Any, a: Any) -> dict[str, Any]:
        contexts.append(self.context)
        return {"Y": a}

    serve(look).execute([Request(A=rows(1))])
    [context] = contexts
    assert context.parameters == {"limit": "5"}
    assert (context.version, context.device, context.logger.name) == ("3", "cpu", "s")


def test_the_log_has_levels(serve: Serve, adapter: Adapter) -> None:
    def log(self: Any, a: Any) -> dict[str, Any]:
        self.context.logger.debug("d")
        self.context.logger.info("i")
        self.context.logger.warning("w")
        self.context.logger.error("e")
        return {"Y": a}

    serve(log).execute([Request(A=rows(1))])
    assert adapter.logged == [("info", "i"), ("warning", "w"), ("error", "e")]


@pytest.mark.parametrize(("kind", "device"), [("CPU", "cpu"), ("GPU", "cuda:1"), ("MODEL", "cpu")])
def test_the_device_of_an_instance(adapter: Adapter, kind: str, device: str) -> None:
    arguments = {"model_instance_kind": kind, "model_instance_device_id": "1"}
    assert adapter.context.device(arguments) == device


@pytest.mark.parametrize("call", [lambda self: None, lambda self, a, b: None])
def test_a_step_whose_call_does_not_fit(serve: Serve, adapter: Adapter, call: Any) -> None:
    with pytest.raises(adapter.arrays.StepError, match=r"step s: "):
        serve(call)


def test_seconds_and_calls_add_up(serve: Serve) -> None:
    step = serve(double)._step
    step.count(1.5)
    step.count(2.0, 3)
    assert (step._seconds.value, step._calls.value) == (3.5, 4)


def test_counters_are_shown_with_their_labels(serve: Serve) -> None:
    metrics = serve(double)._step._call.context.metrics
    metrics.counter("cache_hits_total", "Answers that were kept")
    family, metric = metrics._shown["cache_hits_total"]
    assert family.declared["description"] == "Answers that were kept"
    assert metric.labels == {"model": "m", "version": "3", "step": "s"}
    for name in ("calls", "seconds", "rejected", "failed"):
        family, _ = metrics._shown[f"step_{name}_total"]
        assert family.declared["description"]
    _, lived = metrics._shown["step_process_seconds_total"]
    assert lived.labels["process"] == "m_0"


@pytest.mark.parametrize("together", [1, 2])
def test_a_count_of_calls_and_seconds(serve: Serve, together: int) -> None:
    model, start = serve(double), time.perf_counter()
    for _ in range(3):
        model.execute([Request(A=rows(1)) for _ in range(together)])
    assert 3 <= model._step._calls.value <= 3 * together  # a group is also tried apart
    assert 0 < model._step._seconds.value < time.perf_counter() - start


@pytest.mark.parametrize(
    ("data_type", "dtype"),
    [
        ("TYPE_FP16", "float16"),
        ("TYPE_BF16", "bfloat16"),
        ("TYPE_INT8", "int8"),
        ("TYPE_UINT64", "uint64"),
        ("TYPE_BOOL", "bool"),
        ("TYPE_STRING", "object"),
    ],
)
def test_the_dtype_of_a_data_type(adapter: Adapter, data_type: str, dtype: str) -> None:
    assert adapter.arrays.dtype_name(data_type) == dtype


TEXTS = {"output": [{"name": "Y", "data_type": "TYPE_STRING", "dims": ["1"]}]}


class TestTexts:
    """An output of the type STRING."""

    def answer(self, serve: Serve, array: Any) -> Any:
        [response] = serve(lambda self, a: {"Y": array}, **TEXTS).execute([Request(A=rows(1))])
        return response

    @pytest.mark.parametrize("text", ["ü", b"x"])
    def test_bytes_and_str_are_sent(self, serve: Serve, text: Any) -> None:
        assert self.answer(serve, np.array([[text]], object)).arrays["Y"].tolist() == [[text]]

    def test_another_object_is_refused(self, serve: Serve) -> None:
        response = self.answer(serve, np.array([[None]], object))
        assert response.said[1] == "step s: returned NoneType in Y, which holds bytes or str"

    def test_a_dtype_of_fixed_length_is_refused(self, serve: Serve) -> None:
        response = self.answer(serve, np.array([["x"]]))
        assert "holds bytes or str; write .astype(object)" in response.said[1]

    def test_a_step_that_shares_a_model_reads_bytes(self, adapter: Adapter) -> None:
        array = np.array([["ü", b"x"]], object)
        kept = adapter.arrays.NumpyArrays().keep(array)
        assert kept.tolist() == [["ü".encode(), b"x"]]
        assert array[0, 0] == "ü"


def test_an_array_that_is_kept_is_contiguous_and_another_object(adapter: Adapter) -> None:
    array = np.arange(6.0).reshape(2, 3).T
    kept = adapter.arrays.NumpyArrays().keep(array)
    assert kept.flags.c_contiguous
    assert kept.tolist() == array.tolist()
    same = np.arange(3.0)
    assert adapter.arrays.NumpyArrays().keep(same) is not same


def test_a_reshaped_tensor_has_the_models_dims(adapter: Adapter) -> None:
    assert adapter.arrays.model_dims({"dims": ["4"], "reshape": {"shape": ["2", "2"]}}) == (2, 2)
    assert adapter.arrays.model_dims({"dims": ["4"]}) == (4,)
    assert adapter.arrays.model_dims({"dims": ["1"], "reshape": {"shape": []}}) == ()


def test_the_time_of_a_request_begins_with_it(serve: Serve) -> None:
    """Calls that a step makes end with the request, and so do calls that a decoupled or an async step waits for."""
    left: list[int] = []

    def note() -> None:
        left.append(model._answered.now().left_us())

    def stream(self: Any, a: Any) -> Iterator[dict[str, Any]]:
        note()
        yield {"Y": a}

    async def stream_later(self: Any, a: Any) -> Any:
        note()
        yield {"Y": a}

    array = np.ones(2, np.float32)
    for step in (stream, stream_later):
        model = serve(step, **STREAMS)
        model.execute([Request(A=array, timeout_us=60_000_000)])
    assert len(left) == 2
    assert all(50_000_000 < each <= 60_000_000 for each in left)


def test_an_async_step_awaits_what_it_calls(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(self: Any, a: Any) -> Any: ...

    model = {"name": "o", "version": 1, "arguments": {}, "outputs": []}
    manifest = {"name": "s", "module": "x", "arguments": {"a": "A"}, "results": {}}
    config: dict[str, Any] = {"max_batch_size": 0, "parameters": {}, "output": []}
    for call, kind in ((wait, adapter.calls.AsyncCall), (double, adapter.calls.Call)):
        monkeypatch.setattr(adapter.user_step, "step_class", lambda _, c=call: step_class(c))
        made = config, adapter.arrays.NumpyArrays(), adapter.calls.Answered()
        step = adapter.user_step.UserStep({**manifest, "calls": {"o": model}}, ON_CPU, *made)
        assert type(step._call.context.calls.o) is kind


def test_counters_are_carried_to_triton(
    serve: Serve, adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter.context, "FLUSH_SECONDS", 0.001)
    carried: list[float] = []
    metrics = serve(double)._step._call.context.metrics
    counter = metrics.counter("hits_total", "Hits")
    monkeypatch.setattr(metrics._shown["hits_total"][1], "increment", carried.append)
    for amount in (2.0, 3.0):
        counter.add(amount)
        end = time.monotonic() + 20
        while sum(carried) < counter.value and time.monotonic() < end:
            time.sleep(0.001)
    assert carried == [2.0, 3.0]


def test_files_of_a_step_are_beside_the_adapter(adapter: Adapter) -> None:
    assert Path(str(adapter.context.__file__)).parents[1] == adapter.context.VERSION_FOLDER


class TestPace:
    """Whether requests share a call, by what both ways took."""

    def pace(self, adapter: Adapter, alone: float, together: float) -> Any:
        pace = adapter.pace.Pace()
        for _ in range(200):
            way = pace.together()
            pace.learn(way, together if way else alone)
        return pace

    def share(self, pace: Any, alone: float, together: float) -> float:
        """Return how much of the time goes into shared calls."""
        ways: list[bool] = []
        for _ in range(1000):
            ways.append(pace.together())
            pace.learn(ways[-1], together if ways[-1] else alone)
        return sum(ways) / len(ways)

    def test_the_faster_way_is_taken(self, adapter: Adapter) -> None:
        assert self.share(self.pace(adapter, 2.0, 1.0), 2.0, 1.0) > 0.95
        assert self.share(self.pace(adapter, 1.0, 2.0), 1.0, 2.0) < 0.05

    def test_the_slower_way_is_tried_again(self, adapter: Adapter) -> None:
        pace = self.pace(adapter, 2.0, 1.0)
        assert 1 - self.share(pace, 2.0, 1.0) > 0
        assert self.share(pace, 0.1, 1.0) < 0.5  # and may have become the faster

    def test_the_other_way_is_tried_after_four_times_as_long_as_it_takes(
        self, adapter: Adapter
    ) -> None:
        pace = adapter.pace.Pace()
        assert not pace.together()
        pace.learn(False, 2.0)
        shared = 0
        while pace.together():
            pace.learn(True, 1.0)
            shared += 1
        assert shared == 8

    def test_one_slow_call_changes_little(self, adapter: Adapter) -> None:
        pace = self.pace(adapter, 1.2, 1.0)
        pace.learn(True, 50.0)
        assert pace._seconds[True] == pytest.approx(1.1)

    @pytest.mark.parametrize(
        ("seconds", "alone", "pause"),
        [(0.01, 0.02, 0.0005), (1.0, 2.0, 0.001), (0.0015, 1.0, 0.0), (0.01, 0.003, 0.0)],
    )
    def test_a_pause_pays_after_long_shared_calls(
        self, adapter: Adapter, seconds: float, alone: float, pause: float
    ) -> None:
        pace = adapter.pace.Pace()
        pace._seconds = [alone, 0.001]
        assert pace.pause(seconds) == pytest.approx(pause)


class TestWaiting:
    """How long clients wait for what a step answers."""

    def test_without_a_timeout_it_may_take_any_time(self, adapter: Adapter) -> None:
        waiting = adapter.calls.Waiting([Request()], 0.0)
        assert waiting.left_us() == 0
        assert waiting.pause() == adapter.calls.LOOK_SECONDS
        waiting.look("m")

    def test_the_longest_timeout_counts(
        self, adapter: Adapter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(adapter.calls, "perf_counter", lambda: 100.0)
        requests = [Request(timeout_us=1_000_000), Request(timeout_us=3_000_000)]
        assert adapter.calls.Waiting(requests, 99.0).left_us() == 2_000_000
        one_waits = [*requests, Request()]
        assert adapter.calls.Waiting(one_waits, 99.0).left_us() == 0
        over = adapter.calls.Waiting(requests, 97.0)
        assert (over.left_us(), over.pause()) == (1, 0.0)
        with pytest.raises(adapter.calls.NobodyWaitsError, match="model m") as raised:
            over.look("m")
        assert raised.value.code == "unavailable"

    def test_nobody_waits_once_all_have_left(self, adapter: Adapter) -> None:
        requests = [Request(), Request()]
        waiting = adapter.calls.Waiting(requests, -100.0)
        requests[0].cancelled = True
        waiting.look("m")
        requests[1].cancelled = True
        waiting.look("m")  # it was asked a moment ago
        waiting._looked = -100.0
        with pytest.raises(adapter.calls.NobodyWaitsError, match="cancelled") as raised:
            waiting.look("m")
        assert raised.value.code == "left"


class TestSharedModel:
    """Two steps in one model: `one` makes M of A, `two` makes Y of M."""

    def serve(
        self, adapter: Adapter, patch: pytest.MonkeyPatch, folder: Path, one: Any, two: Any
    ) -> Any:
        patch.setattr(adapter.model, "VERSION_FOLDER", folder)
        patch.setitem(sys.modules, "steps", ModuleType("steps"))
        steps = []
        for name, function, reads, writes in (("one", one, "A", "M"), ("two", two, "M", "Y")):
            module: Any = ModuleType(f"steps.{name}")
            module.Step = step_class(function)
            patch.setitem(sys.modules, f"steps.{name}", module)
            spec = {"data_type": "TYPE_FP32", "dims": ["2"]}
            steps.append(
                {
                    "name": name,
                    "module": name,
                    "arguments": {"x": "X"},
                    "results": {},
                    "calls": {},
                    "parameters": {},
                    "input": [{"name": "X", "tensor": reads, **spec}],
                    "output": [{"name": "Z", "tensor": writes, **spec}],
                }
            )
        (folder / "step.json").write_text(json.dumps({"arrays": "numpy", "steps": steps}))
        config = {
            "max_batch_size": 8,
            "input": [{"name": "A", "data_type": "TYPE_FP32", "dims": ["2"]}],
            "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": ["2"]}],
            "instance_group": [{"count": 1}],
        }
        model = adapter.model.TritonPythonModel()
        model.initialize({**ON_CPU, "model_config": json.dumps(config)})
        return model

    def test_one_reads_what_the_other_wrote(
        self, adapter: Adapter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def add(self: Any, x: Any) -> dict[str, Any]:
            return {"Z": x + 1}

        def times(self: Any, x: Any) -> dict[str, Any]:
            return {"Z": 10 * x}

        model = self.serve(adapter, monkeypatch, tmp_path, add, times)
        for requests in ([Request(A=rows(1))], [Request(A=rows(1)), Request(A=rows(2, 3))]):
            responses = model.execute(requests)
            answers = [response.arrays["Y"][:, 0].tolist() for response in responses]
            assert answers == [[20], [30, 40]][: len(requests)]

    def test_an_async_step_beside_another(
        self, adapter: Adapter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        buffer = np.zeros((1, 2), np.float32)

        def reuse(self: Any, x: Any) -> dict[str, Any]:
            buffer[:] = x
            return {"Z": buffer}

        async def later(self: Any, x: Any) -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"Z": x}

        model = self.serve(adapter, monkeypatch, tmp_path, reuse, later)
        responses = model.execute([Request(A=rows(1)), Request(A=rows(2))])
        assert [response.arrays["Y"][0, 0] for response in responses] == [1, 2]

    @pytest.mark.parametrize("failing", ["one", "two"])
    def test_the_step_that_fails_is_named(
        self,
        adapter: Adapter,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        failing: str,
    ) -> None:
        def refuse(self: Any, x: Any) -> Any:
            raise InvalidRequest("no")

        def passes(self: Any, x: Any) -> dict[str, Any]:
            return {"Z": x}

        steps = [refuse if name == failing else passes for name in ("one", "two")]
        model = self.serve(adapter, monkeypatch, tmp_path, *steps)
        [response] = model.execute([Request(A=rows(1))])
        assert response.said == ("invalid", f"step {failing}: no")
        counts = {part.step.name: part.step.rejected.value for part in model._step._parts}
        assert counts == {"one": failing == "one", "two": failing == "two"}


@pytest.mark.parametrize(("counts", "threads"), [([1], 0), ([2], 1), ([1, 1], 1)])
def test_an_onnx_step_has_one_thread_where_instances_share_the_cores(
    adapter: Adapter, counts: list[int], threads: int
) -> None:
    config = {"instance_group": [{"count": count} for count in counts]}
    assert adapter.fused.threads_of(config) == threads
