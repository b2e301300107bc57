"""Shared by tests: named wirings, most of them found by test_properties.py: what refuses each is in refused.yml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from support import step

ALL = {"ensemble": {"all_outputs": True}}


def wired(*steps: Any, **answers: Any) -> dict[str, Any]:
    """Return answers of these steps. Tensors of one letter are FP32[4]."""
    letters = {
        name: "FP32[4]" for s in steps for side in ("inputs", "outputs") for name in names(s, side)
    }
    return {"max_batch_size": 8, "tensors": letters, "steps": list(steps), **answers}


def names(step: dict[str, Any], side: str) -> list[str]:
    bindings = step[side] if isinstance(step[side], list) else step[side].values()
    return [
        binding.get("tensor") or "" if isinstance(binding, dict) else binding
        for binding in bindings
    ]


def sized(*dims: int) -> dict[str, Any]:
    return {"tensor": "M", "dims": list(dims)}


def nested(inputs: Any, outputs: Any, **fields: Any) -> dict[str, Any]:
    """Return a step that is an ensemble of one step."""
    own = {"tensors": {"x": "FP32[4]", "y": "FP32[4]"}, "steps": [step("within", ["x"], ["y"])]}
    return step("inner", inputs, outputs, "ensemble", **{**own, **fields})


def correlated(data_type: str) -> dict[str, Any]:
    control = {"kind": "CONTROL_SEQUENCE_CORRID", "data_type": data_type}
    return {"direct": {}, "control_input": [{"name": "ID", "control": [control]}]}


STATE = {"input_name": "S", "output_name": "T", "data_type": "TYPE_FP32", "dims": [4]}


def stateful(*initial: list[int], **fields: Any) -> dict[str, Any]:
    """Return a step of a sequence with the state S of FP32[4, -1], and initial states of other dims."""
    values = {"name": "s", "data_type": "TYPE_FP32", "zero_data": True}
    state = {"input_name": "S", "output_name": "T", "data_type": "TYPE_FP32", "dims": [4, -1]}
    if initial:
        state["initial_state"] = [{**values, "dims": dims} for dims in initial]
    return wired(step("a", ["A"], ["X"], sequence={"state": [state | fields]}))


def reshaped(dims: list[int], shape: list[int]) -> dict[str, Any]:
    """Return a step whose model sees its input in another shape."""
    given = wired(step("a", {"i": {"tensor": "A", "reshape": shape}}, ["X"]))
    return given | {"tensors": {"A": {"type": "FP32", "dims": dims}, "X": "FP32[4]"}}


def controlled(*names: str) -> dict[str, Any]:
    """Return a step of a sequence whose start and end are inputs of some names."""
    kinds = [f"CONTROL_SEQUENCE_{kind}" for kind in ("START", "END")]
    inputs = [
        {"name": name, "control": [{"kind": kind, "fp32_false_true": [0, 1]}]}
        for name, kind in zip(names, kinds, strict=True)
    ]
    return wired(step("a", ["A"], ["X"], sequence={"direct": {}, "control_input": inputs}))


def batched(**batching: Any) -> dict[str, Any]:
    return wired(step("a", ["A"], ["X"], batching=batching))


def delayed(**policy: Any) -> dict[str, Any]:
    """Return a queue policy of a step that keeps the order of requests."""
    return batched(preserve_ordering=True, default_queue_policy=policy)


def alone(**fields: Any) -> dict[str, Any]:
    """Return a step with these fields that reads A and writes X."""
    return wired(step("a", ["A"], ["X"], **fields))


def engine(shapes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a step of TensorRT with dims that vary, and the shapes that its engine is built for."""
    inputs = {"x": {"tensor": "A", "dims": [-1, 4]}}
    fields = {"trtexec": {"shapes": shapes}, **fields}
    given = wired(step("a", inputs, ["X"], "tensorrt", **fields), gpu_count=1)
    return given | {"tensors": {"A": "FP32[-1, 4]", "X": "FP32[4]"}}


def control(**fields: Any) -> dict[str, Any]:
    """Return a step of a sequence with a control."""
    return alone(sequence={"control_input": [{"name": "S", "control": [fields]}]})


OPEN = {"A": "FP32[4]", "M": "FP32[-1]", "X": "FP32[4]", "Y": "FP32[4]"}
MAYBE = {"A": "FP32[4]", "B": {"type": "FP32", "dims": [4], "optional": True}, "X": "FP32[4]"}
FIRST, SECOND = step("a", ["A"], ["M"], fuse=False), step("b", ["A", "M"], ["X"], fuse=False)


def maybe(*steps: Any, **answers: Any) -> dict[str, Any]:
    """Return a pipeline whose steps may leave out M and N."""
    given = wired(*steps, **answers)
    return given | {
        "tensors": {n: MAYBE["B"] if n in "MN" else t for n, t in given["tensors"].items()}
    }


HALVES = {
    "tensors": {"A": "FP32[4]", "B": "BF16[4]", "X": "FP32[4]"},
    "steps": [
        step("a", ["A"], ["B"], "tensorrt", device="auto"),
        step("b", ["B"], ["X"], "tensorrt", device="auto"),
    ],
    "outputs": ["B", "X"],
    "gpu_count": 1,
}

ID = {"kind": "CONTROL_SEQUENCE_CORRID", "data_type": "TYPE_UINT64"}
# By name what is refused: `LINE RULE: WORDS` of the answers as YAML, the fields as they are listed here.
REFUSED = yaml.safe_load(Path(__file__).with_name("refused.yml").read_text())
WIRINGS: dict[str, dict[str, Any]] = {
    "chain": wired(step("a", ["A"], ["M"]), step("b", ["M"], ["X"])),
    "diamond": wired(
        step("a", ["A"], ["M"]),
        step("b", ["M"], ["N"]),
        step("c", ["M"], ["O"]),
        step("d", ["N", "O"], ["X"]),
    ),
    "an input that enters late": wired(
        step("a", ["A"], ["M"]), step("b", ["M"], ["X"]), step("c", ["M", "B"], ["Y"])
    ),
    "two late inputs, which no step joins": wired(
        step("a", ["A"], ["M"]), step("b", ["M", "B"], ["X"]), step("c", ["M", "C"], ["Y"])
    ),
    "two late inputs, all outputs at once": wired(
        step("a", ["A"], ["M"]),
        step("b", ["M", "B"], ["X"]),
        step("c", ["M", "C"], ["Y"]),
        **ALL,
    ),
    "two writers, of which one reads it too": wired(
        step("a", ["A"], ["M"]), step("b", ["M"], ["M", "X"])
    ),
    "two writers, of which one reads what the other needs": wired(
        step("b", ["M"], ["X"]), step("a", ["X"], ["M"]), step("c", ["A"], ["M"])
    ),
    "three steps that read from each other": wired(
        step("a", ["A", "Y"], ["M"]), step("b", ["M"], ["X"]), step("c", ["X"], ["Y"])
    ),
    "a step before three that read from each other": wired(
        step("a", ["A"], ["M"]),
        step("b", ["M", "Z"], ["X"]),
        step("c", ["X", "M"], ["Y"]),
        step("d", ["Y", "X"], ["Z"]),
    ),
    "four steps that read from each other": wired(
        step("a", ["A", "Z"], ["M"]),
        step("b", ["M"], ["X"]),
        step("c", ["X"], ["Y"]),
        step("d", ["Y", "A"], ["Z"]),
    ),
    "unconnected steps": wired(step("a", ["A"], ["X"]), step("b", ["B"], ["Y"])),
    "a decoupled step": wired(step("a", ["A"], ["M"], decoupled=True), step("b", ["M"], ["X"])),
    "a cache over a decoupled step": wired(
        step("a", ["A"], ["X"], decoupled=True), ensemble={"cache": True}
    ),
    "two outputs of a decoupled step that meet": wired(
        step("a", ["A"], ["M", "N"], decoupled=True), step("b", ["M", "N"], ["X"])
    ),
    "a decoupled step and an input that passes it by": wired(
        step("a", ["A"], ["M"], decoupled=True), step("b", ["M", "A"], ["X"])
    ),
    "two decoupled steps that meet": wired(
        step("a", ["A"], ["M"], decoupled=True),
        step("b", ["A"], ["N"], decoupled=True),
        step("c", ["M", "N"], ["X"]),
    ),
    "a decoupled output next to a plain one": wired(
        step("a", ["A"], ["X"], decoupled=True), step("b", ["A"], ["Y"])
    ),
    "two readers of an open dim that agree": wired(
        step("a", ["A"], ["M"]),
        step("b", {"i": sized(4)}, ["X"]),
        step("c", {"i": sized(4)}, ["Y"]),
    )
    | {"tensors": OPEN},
    "two readers of an open dim that differ": wired(
        step("a", ["A"], ["M"]),
        step("b", {"i": sized(4)}, ["X"]),
        step("c", {"i": sized(5)}, ["Y"]),
    )
    | {"tensors": OPEN},
    "rows that a step has not": wired(
        step("a", ["A"], ["M"]), step("b", ["M"], ["X"], max_batch_size=0)
    ),
    "rows that a step has not, adopted": wired(
        step("a", ["A"], ["M"]), step("b", ["M"], ["X"], max_batch_size=0, adopted=True)
    ),
    "more rows than a step takes": wired(
        step(
            "a",
            {"A": {"tensor": "A", "dims": [-1, 4]}},
            {"M": {"tensor": "M", "dims": [4]}},
            max_batch_size=1,
        ),
        step("b", ["M"], ["X"]),
        max_batch_size=0,
    )
    | {"tensors": {"A": "FP32[-1, 4]", "M": "FP32[2, 4]", "X": "FP32[4]"}},
    "more rows than a request of a sequence has": wired(
        step(
            "a",
            {"A": {"tensor": "A", "dims": [-1, 4]}},
            {"M": {"tensor": "M", "dims": [4]}},
            max_batch_size=8,
            sequence={},
        ),
        step("b", ["M"], ["X"]),
        max_batch_size=0,
    )
    | {"tensors": {"A": "FP32[-1, 4]", "M": "FP32[2, 4]", "X": "FP32[4]"}},
    "one row, read in two ways": wired(
        step("a", ["A"], ["M"]),
        step("b", {"i": sized(4), "j": sized(-1, 4)}, ["X"], max_batch_size=0),
        max_batch_size=1,
    )
    | {"tensors": {"A": "FP32[4]", "M": "FP32[4]", "X": "FP32[-1, 4]"}},
    "an input that a request may leave out": wired(step("a", ["A", "B"], ["X"]))
    | {"tensors": MAYBE},
    "an input that a request may leave out, and the step may not": wired(
        step("a", {"A": "A", "b": {"tensor": "B", "optional": False}}, ["X"])
    )
    | {"tensors": MAYBE},
    "an output that a step may leave out": maybe(FIRST, SECOND),
    "an output that a step may leave out, and the next one may not": maybe(
        FIRST, step("b", {"A": "A", "m": {"tensor": "M", "optional": False}}, ["X"])
    ),
    "an output that a step may leave out, of a model that two steps have": maybe(
        FIRST, SECOND, {"name": "c", "model": "a", "inputs": {"A": "X"}, "outputs": {"M": "Y"}}
    ),
    "an output that a step may leave out, to ONNX Runtime": maybe(
        FIRST, step("b", ["A", "M"], ["X"], "onnxruntime")
    ),
    "an output that a step may leave out, and another step reads": maybe(
        FIRST, SECOND, outputs=["M", "X"]
    ),
    "an output that a step may leave out, and another step reads, with all others": maybe(
        FIRST, SECOND, outputs=["M", "X"], **ALL
    ),
    "nothing but outputs that a step may leave out": maybe(
        {**FIRST, "outputs": ["M", "N"]}, step("b", ["M", "N"], ["X"], fuse=False)
    ),
    "outputs that a step may leave out, all of them": maybe(FIRST),
    "an optional output": wired(step("a", ["A"], {"x": {"tensor": "X", "optional": True}})),
    "labels of an input": wired(step("a", {"i": {"tensor": "A", "labels": "names.txt"}}, ["X"])),
    "an optional output of the ensemble": wired(
        step("a", ["A"], ["X"]), outputs={"X": {"optional": True}}
    ),
    "an output of the ensemble reshaped to another size": wired(
        step("a", ["A"], ["X"]), outputs={"X": {"reshape": [5]}}
    ),
    "labels of the ensemble in a folder": wired(
        step("a", ["A"], ["X"]), outputs={"X": {"labels": "folder/labels.txt"}}
    ),
    "an output of the ensemble reshaped for clients": wired(
        step("a", ["A"], ["X"]), outputs={"X": {"dims": [2, 2], "reshape": [4]}}
    ),
    "an input of the ensemble reshaped to what no step reads": wired(
        step("a", ["A"], ["X"]), inputs={"A": {"reshape": [2, 2]}}
    ),
    "a format of an input of the ensemble": wired(
        step("a", ["A"], ["X"]), inputs={"A": {"format": "NCHW"}}
    ),
    "an output that is dropped, without dims, but with a reshape": wired(
        step("a", ["A"], {"X": "X", "Y": {"type": "BOOL", "dims": [], "reshape": []}})
    )
    | {"tensors": {"A": "FP32[4]", "X": "FP32[4]"}},
    "an output of the ensemble without dims": wired(
        step("a", ["A"], ["X"]), outputs={"X": {"dims": []}}
    ),
    "a warmup of an unknown input": wired(
        step("a", {"input": "A"}, ["X"], warmup=[{"inputs": {"inputs": "zero"}}])
    ),
    "a warmup without an input": wired(
        step("a", ["A", "B"], ["X"], warmup=[{"inputs": {"A": "zero"}}])
    ),
    "a tensor that comes from nowhere": wired(
        step("a", ["A", "B"], ["M"]), step("z", ["M", "B"], ["X"]), inputs=["A"]
    ),
    "a warmup of other dims": wired(
        step("a", ["A"], ["X"], warmup=[{"inputs": {"A": {"data": "zero", "dims": [5]}}}])
    ),
    "a warmup of a dim that is left open": wired(
        step("a", ["A"], ["X"], warmup=[{"inputs": {"A": {"data": "zero", "dims": [-1]}}}])
    )
    | {"tensors": {"A": "FP32[-1]", "X": "FP32[4]"}},
    "a warmup of a dim that varies": wired(
        step("a", ["A"], ["X"], warmup=[{"inputs": {"A": {"data": "zero", "dims": [7]}}}])
    )
    | {"tensors": {"A": "FP32[-1]", "X": "FP32[4]"}},
    "a warmup of too many rows": wired(
        step("a", ["A"], ["X"], warmup=[{"batch_size": 9, "inputs": {"A": "zero"}}])
    ),
    "a sequence of two kinds": wired(
        step("a", ["A"], ["X"], sequence={"direct": {}, "oldest": {}})
    ),
    "a correlation id of a type that Triton does not have for it": wired(
        step("a", ["A"], ["X"], sequence=correlated("TYPE_FP32"))
    ),
    "two controls of one name": controlled("S", "S"),
    "two controls": controlled("S", "E"),
    "a sequence in batches of none": wired(
        step("a", ["A"], ["X"], sequence={"oldest": {"preferred_batch_size": [0]}})
    ),
    "a queue that delays, and no timeout": delayed(timeout_action="DELAY"),
    "a queue that delays after a timeout": delayed(timeout_action="DELAY", default_timeout_us=5),
    "a queue that delays after a timeout, of a priority": batched(
        preserve_ordering=True,
        priority_queue_policy={1: {"timeout_action": "DELAY", "default_timeout_us": 5}},
    ),
    "a policy of a priority, and no levels": batched(
        priority_queue_policy={3: {"max_queue_size": 5}}
    ),
    "no policy of a priority": batched(priority_queue_policy={}),
    "tensors that Python's backend does not find": wired(step("a", ["A"], ["X"], declare=False)),
    "tensors that a model.py of one's own adds": wired(
        step("a", ["A"], ["X"], declare=False, adopted=True)
    ),
    "tensors that ONNX Runtime finds": wired(step("a", ["A"], ["X"], "onnxruntime", declare=False)),
    "a field with an answer of its own in config": wired(
        step("a", ["A"], ["X"], config="version_policy { all { } }")
    ),
    "a field that no ensemble has in its config": wired(
        step("a", ["A"], ["X"]), ensemble={"config": "instance_group { kind: KIND_CPU }"}
    ),
    "a parameter that is yes or no": wired(
        step("a", ["A"], ["X"], parameters={"FORCE_CPU_ONLY_INPUT_TENSORS": False})
    ),
    "a policy of a priority above the levels": batched(
        priority_levels=2,
        default_priority_level=1,
        priority_queue_policy={3: {"max_queue_size": 5}},
    ),
    "a reshape around a dim that varies": reshaped([2, -1, 3], [1, 2, -1, 3]),
    "a reshape of as many values, and others around a dim that varies": reshaped(
        [2, -1, 3], [3, -1, 2]
    ),
    "a reshape of dims that vary in another order": reshaped([2, -1, 3, -1], [2, -1, -1, 3]),
    "a step that reads what it writes, beside another": wired(
        step("a", ["A"], ["N", "M"]), step("b", ["N", "K"], ["K", "Y"]), step("c", ["M"], ["X"])
    ),
    "a control that is an input": wired(
        step("a", ["A", "ID"], ["X"], sequence=correlated("TYPE_UINT64"))
    ),
    "a state that is an input": stateful(input_name="A"),
    "a state twice": wired(
        step("a", ["A"], ["X"], sequence={"state": [STATE, {**STATE, "output_name": "U"}]})
    ),
    "texts as correlation ids": wired(step("a", ["A"], ["X"], sequence=correlated("TYPE_STRING"))),
    "texts as correlation ids of a newer release": wired(
        step("a", ["A"], ["X"], sequence=correlated("TYPE_STRING")), triton_release="26.07"
    ),
    "an output that a Python model cannot copy": HALVES,
    "an output of all that a Python model cannot copy": {
        **HALVES,
        "ensemble": {"all_outputs": True},
    },
    "an optional input alone": {
        "tensors": MAYBE | {"Y": "FP32[4]"},
        "steps": [
            step("a", {"b": "B"}, ["X"], fuse=False),
            step("c", ["A", "X"], ["Y"], fuse=False),
        ],
    },
    "an optional input alone, in one model with another": {
        "tensors": MAYBE | {"Y": "FP32[4]"},
        "steps": [step("a", {"b": "B"}, ["X"]), step("c", ["A", "X"], ["Y"])],
    },
    "a bracket too much in config": wired(step("a", ["A"], ["X"], config="}")),
    "a bracket too few in config": wired(step("a", ["A"], ["X"], config="parameters { key: '}'")),
    "a quote too few in config": wired(
        step("a", ["A"], ["X"], config='default_model_filename: "x')
    ),
    "a file of a step whose code is generated": wired(step("a", ["A"], ["X"], file="other.py")),
    "a state that is an output": stateful(output_name="X"),
    "an initial state": stateful([4, 2]),
    "an initial state of another size": stateful([5, 2]),
    "an initial state of no size": stateful([4, -1]),
    "two initial states": stateful([4, 2], [4, 3]),
    "a file that Python can import": wired(step("a", ["A"], ["X"], file="model.py")),
    "a file that Python cannot import": wired(step("a", ["A"], ["X"], file="model.1.py")),
    "a nested ensemble": wired(nested({"x": "A"}, {"y": "X"})),
    "a nested ensemble that has settings": wired(
        nested({"x": "A"}, {"y": "X"}, ensemble={"cache": True, "versions": [2]})
    ),
    "a nested ensemble that has too new settings": wired(
        nested({"x": "A"}, {"y": "X"}, ensemble={"max_inflight_requests": 2}),
        triton_release="25.10",
    ),
    "a model file of a later release": wired(
        step("a", ["A"], ["X"], "pytorch", file="model.pt2"), triton_release="26.02"
    ),
    "a field of a later release, verbatim": wired(
        step("a", ["A"], ["X"], config="model_metrics { }"), triton_release="24.10"
    ),
    "a field of the answers, verbatim": wired(
        step("a", ["A"], ["X"], config='max_batch_size: 4 # {"')
    ),
    "another scheduler, verbatim": wired(step("a", ["A"], ["X"], config="sequence_batching { }")),
    "no field, verbatim": wired(step("a", ["A"], ["X"], config="optimisation { }")),
    "a field twice, verbatim": wired(
        step("a", ["A"], ["X"], config="optimization { } optimization { }")
    ),
    "a field of the ensemble, verbatim": wired(
        step("a", ["A"], ["X"]), ensemble={"config": "ensemble_scheduling { }"}
    ),
    "what holds the names of fields, verbatim": wired(
        step(
            "a",
            ["A"],
            ["X"],
            config='parameters { key: "name: {" value { string_value: "x" } } # name: "',
        )
    ),
    "a backend that a release dropped": wired(
        step("a", ["A"], ["X"], "tensorflow"), triton_release="25.03"
    ),
    "a nested ensemble whose tensor is another": wired(
        nested({"x": "A"}, {"y": "X"}, tensors={"x": "FP32[5]", "y": "FP32[4]"})
    ),
    "a nested ensemble that declares other dims": wired(
        nested(
            {"x": {"tensor": "A", "dims": [4]}},
            {"y": "X"},
            tensors={"x": "FP32[-1]", "y": "FP32[4]"},
        )
    ),
    "a nested ensemble that reshapes": wired(
        nested(
            {"x": {"tensor": "A", "dims": [4], "reshape": [2, 2]}},
            {"y": "X"},
            tensors={"x": "FP32[2, 2]", "y": "FP32[4]"},
        )
    ),
    "a field of a step at an ensemble": wired(nested({"x": "A"}, {"y": "X"}, instances=2)),
    "a field of an ensemble at its step": wired(nested({"x": "A"}, {"y": "X"}, cache=True)),
    "a field of an ensemble at another step": wired(
        step("a", ["A"], ["X"], tensors={"x": "FP32[4]"})
    ),
    "a field of a model at a step that is served by another's": wired(
        step("a", ["A"], ["M"]),
        {
            "name": "b",
            "model": "a",
            "inputs": {"A": "M"},
            "outputs": {"M": "X"},
            "instances": 2,
        },
    ),
    "the model of no step": wired(
        step("a", ["A"], ["M"]), {"name": "b", "model": "z", "inputs": ["M"], "outputs": ["X"]}
    ),
    "the model of the step itself": wired(
        step("a", ["A"], ["M"]), {"name": "b", "model": "b", "inputs": ["M"], "outputs": ["X"]}
    ),
    "the model of a step inside": wired(
        nested({"x": "A"}, {"y": "M"}, steps=[step("within", ["x"], ["y"], fuse=False)]),
        {"name": "b", "model": "within", "inputs": {"x": "M"}, "outputs": {"y": "X"}},
    ),
    "the model of a step inside that is fused": wired(
        nested(
            {"x": "A"},
            {"y": "M"},
            tensors=dict.fromkeys("xty", "FP32[4]"),
            steps=[step("within", ["x"], ["t"]), step("last", ["t"], ["y"])],
        ),
        {"name": "b", "model": "within", "inputs": {"x": "M"}, "outputs": {"t": "X"}},
    ),
    "an input that the shared model does not have": wired(
        step("a", {"text": "A"}, {"score": "M"}),
        {"name": "b", "model": "a", "inputs": {"texts": "M"}, "outputs": {"score": "X"}},
    ),
    "an output that the shared model does not have": wired(
        step("a", {"text": "A"}, {"score": "M"}),
        {"name": "b", "model": "a", "inputs": {"text": "M"}, "outputs": {"scores": "X"}},
    ),
    "an input of the shared model without a tensor": wired(
        step("a", {"text": "A", "hint": "H"}, {"score": "M"}),
        {"name": "b", "model": "a", "inputs": {"text": "M"}, "outputs": {"score": "X"}},
    ),
    "calls of a step that is none": wired(
        step("a", ["A"], ["X"], calls=["halv"]), step("halve", ["A"], ["Y"])
    ),
    "a step that calls itself": wired(step("a", ["A"], ["X"], calls=["a"])),
    "steps that call each other, over a third": wired(
        step("a", ["A"], ["M"], calls=["c"]),
        step("b", ["M"], ["X"], calls=["c", "a"]),
        step("c", ["A"], ["Y"], calls=["b"]),
    ),
    "a step that calls one that its own model serves": wired(
        step("a", {"i": "A"}, {"o": "M"}, calls=["b"]),
        {"name": "b", "model": "a", "inputs": {"i": "M"}, "outputs": {"o": "X"}},
    ),
    "steps that call the same one": wired(
        step("a", ["A"], ["M"], calls=["b", "c"]),
        step("b", ["M"], ["X"], calls=["c"]),
        step("c", ["A"], ["Y"]),
    ),
    "adopted models that name each other": wired(
        step("a", ["A"], ["M"], adopted=True, calls=["b"]),
        step("b", ["M"], ["X"], adopted=True, calls=["a"]),
    ),
    "a call of a step of sequences": wired(
        step("a", ["A"], ["M"], calls=["b"]), step("b", ["M"], ["X"], sequence={"direct": {}})
    ),
}
# The same of single fields, a case of each rule that is not above.
MISTAKES: dict[str, dict[str, Any]] = {
    "batches without rows": alone(max_batch_size=0, batching=True) | {"max_batch_size": 0},
    "batches of sequences": alone(sequence={"direct": {}}, batching=True),
    "a size above the batches": batched(preferred_batch_size=[4, 99, 8]),
    "a size above the batches of sequences": alone(
        sequence={"oldest": {"preferred_batch_size": [99]}}
    ),
    "an order of two priorities": batched(
        preserve_ordering=True, priority_levels=2, default_priority_level=1
    ),
    "a priority above the levels": batched(priority_levels=2, default_priority_level=3),
    "a cache of a decoupled step": alone(decoupled=True, cache=True),
    "a cache of a step of sequences": alone(sequence={"direct": {}}, cache=True),
    "calls of a step without code": wired(
        step("a", ["A"], ["M"], "onnxruntime", calls=["b"]), step("b", ["M"], ["X"])
    ),
    "a control without its values": control(kind="CONTROL_SEQUENCE_END"),
    "a control with one value": control(int32_false_true=[0]),
    "a control twice": alone(
        sequence={
            "control_input": [
                {"name": name, "control": [{"fp32_false_true": [0, 1]}]} for name in "ST"
            ]
        }
    ),
    "a correlation id with values": control(**ID, bool_false_true=[False, True]),
    "a correlation id without a type": control(kind=ID["kind"]),
    "an initial state of another type": stateful([4, 2], data_type="TYPE_INT32"),
    "an initial state without values": alone(
        sequence={
            "state": [
                {**STATE, "initial_state": [{"name": "s", "data_type": "TYPE_FP32", "dims": [4]}]}
            ]
        }
    ),
    "a file of an adopted step that Python cannot import": alone(adopted=True, file="model.1.py"),
    "a tag that ends Triton": alone(metric_tags={"team": "a", "_x": "1"}),
    "a GPU where there is none": alone(device="gpu"),
    "a GPU where there is none, of an instance": alone(
        instances=[{"device": "cpu"}, {"device": "gpu"}]
    ),
    "a GPU above the count": {**alone(device="gpu", gpus=[0, 2]), "gpu_count": 1},
    "a GPU above the count, of an instance": {
        **alone(instances=[{"device": "gpu", "gpus": [1]}]),
        "gpu_count": 1,
    },
    "GPUs of a step on the CPU": {**alone(device="cpu", gpus=[0]), "gpu_count": 1},
    "GPUs beside groups": {
        **alone(device="gpu", gpus=[0], instances=[{"device": "gpu"}]),
        "gpu_count": 1,
    },
    "GPUs of no instances": {**alone(device="gpu", gpus=[0], instances="none"), "gpu_count": 1},
    "a backend of GPUs on the CPU": {
        **wired(step("a", ["A"], ["X"], "tensorrt", device="cpu")),
        "gpu_count": 1,
    },
    "an engine of another backend": alone(trtexec=True),
    "an engine with a file": engine(
        {"x": {key: [1, 4] for key in ("min", "opt", "max")}}, file="my.plan"
    ),
    "an engine without sizes": engine({}),
    "an engine with sizes of an unknown input": engine(
        {"xs": {key: [1, 4] for key in ("min", "opt", "max")}}
    ),
    "an engine with sizes of other dims": engine(
        {"x": {"min": [1, 4], "opt": [1, 5], "max": [8, 4]}}
    ),
    "an engine with sizes that fall": engine({"x": {"min": [2, 4], "opt": [9, 4], "max": [8, 4]}}),
    "an input that no step reads": wired(
        step("a", ["A"], ["M"]), step("b", ["M"], ["X"]), **ALL, inputs=["A", "B"]
    )
    | {"tensors": dict.fromkeys("ABMX", "FP32[4]")},
    "an input that a step writes": wired(
        step("a", ["A"], ["M"]), step("b", ["M"], ["X"]), **ALL, inputs=["A", "M"]
    ),
    "a tensor that no step uses": alone() | {"tensors": dict.fromkeys("AXC", "FP32[4]")},
    "a reshape to a scalar without rows": {**reshaped([1], []), "max_batch_size": 0},
    "fewer rows than the ensemble": alone(max_batch_size=4),
    "rows that a step keeps": wired(
        step("a", ["A"], ["M"], max_batch_size=2),
        step("b", {"x": {"tensor": "M", "dims": [2, 4]}}, ["X"]),
        max_batch_size=0,
    ),
    "a step that is fused with none": alone(fuse=True),
    "a version that is not served": alone(version=3, versions=[1, 2]),
    "labels in a folder": wired(
        step("a", ["A"], {"X": {"tensor": "X", "labels": "folder/names.txt"}})
    ),
    "a file name of ONNX Runtime": alone(backend="onnxruntime", file="model.1.onnx"),
    "tags of fused steps": wired(
        step("a", ["A"], ["M"], metric_tags={"_x": "1"}), step("b", ["M"], ["X"], fuse=True)
    ),
    "a size above the batches of fused steps": wired(
        *(
            step(name, [one], [two], batching={"preferred_batch_size": [99]})
            for name, one, two in ("aAM", "bMX")
        )
    ),
    "a size above the batches of an adopted step": alone(
        adopted=True, batching={"preferred_batch_size": [99]}
    ),
    "a size above the batches of a step inside": wired(
        nested(
            {"x": "A"},
            {"y": "X"},
            steps=[step("in", ["x"], ["y"], batching={"preferred_batch_size": [99]})],
        )
    ),
    "a GPU where there is none, of fused steps": wired(
        *(step(name, [one], [two], device="gpu") for name, one, two in ("aAM", "bMX"))
    ),
    "an order of two priorities of fused steps": wired(
        *(
            step(
                name,
                [one],
                [two],
                batching={
                    "preserve_ordering": True,
                    "priority_levels": 2,
                    "default_priority_level": 1,
                },
            )
            for name, one, two in ("aAM", "bMX")
        )
    ),
    "two mistakes of two steps, and the form of a third": wired(
        step("a", ["A"], ["nowhere"], instances=-1),
        step("b", ["A"], ["M"], batching={"preferred_batch_size": [8, 99]}),
        step("c", ["A"], ["X"], device="gpu"),
    ),
}
