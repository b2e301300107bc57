"""Shared by tests: named wirings, most of them found by test_properties.py: what the template says of each."""

from __future__ import annotations

from typing import Any

from support import step

ALL = {"ensemble": {"all_outputs": True}}
PARTS = "outputs: X needs only some of the inputs, and Triton deadlocks; write `ensemble: {all_outputs: true}`"
FOR_EVER = "waits for itself, as it calls its own model"


def wired(*steps: Any, **answers: Any) -> dict[str, Any]:
    """Return answers of these steps; tensors of one letter are FP32[4]."""
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


DELAYS = "step a: keeps the order of requests, so a timeout cannot delay one; write `timeout_action: REJECT`"
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

# Each: the answers, and the line that refuses them; empty where they are accepted.
WIRINGS: dict[str, tuple[dict[str, Any], str]] = {
    "chain": (wired(step("a", ["A"], ["M"]), step("b", ["M"], ["X"])), ""),
    "diamond": (
        wired(
            step("a", ["A"], ["M"]),
            step("b", ["M"], ["N"]),
            step("c", ["M"], ["O"]),
            step("d", ["N", "O"], ["X"]),
        ),
        "",
    ),
    "an input that enters late": (
        wired(step("a", ["A"], ["M"]), step("b", ["M"], ["X"]), step("c", ["M", "B"], ["Y"])),
        "",
    ),
    "two late inputs, which no step joins": (
        wired(step("a", ["A"], ["M"]), step("b", ["M", "B"], ["X"]), step("c", ["M", "C"], ["Y"])),
        PARTS,
    ),
    "two late inputs, all outputs at once": (
        wired(
            step("a", ["A"], ["M"]),
            step("b", ["M", "B"], ["X"]),
            step("c", ["M", "C"], ["Y"]),
            **ALL,
        ),
        "",
    ),
    "two writers, of which one reads it too": (
        wired(step("a", ["A"], ["M"]), step("b", ["M"], ["M", "X"])),
        "step b: writes M, which step a writes too; rename one M",
    ),
    "two writers, of which one reads what the other needs": (
        wired(step("b", ["M"], ["X"]), step("a", ["X"], ["M"]), step("c", ["A"], ["M"])),
        "step b: reads M of step a, which reads from b itself; let one read something else",
    ),
    "three steps that read from each other": (
        wired(step("a", ["A", "Y"], ["M"]), step("b", ["M"], ["X"]), step("c", ["X"], ["Y"])),
        "step a: reads Y of step c, which reads from b, which reads from a itself; "
        "let one read something else",
    ),
    "a step before three that read from each other": (
        wired(
            step("a", ["A"], ["M"]),
            step("b", ["M", "Z"], ["X"]),
            step("c", ["X", "M"], ["Y"]),
            step("d", ["Y", "X"], ["Z"]),
        ),
        "step b: reads Z of step d, which reads from b itself; let one read something else",
    ),
    "four steps that read from each other": (
        wired(
            step("a", ["A", "Z"], ["M"]),
            step("b", ["M"], ["X"]),
            step("c", ["X"], ["Y"]),
            step("d", ["Y", "A"], ["Z"]),
        ),
        "step a: reads Z of step d, which reads from c, which reads from b, which reads from a itself; "
        "let one read something else",
    ),
    "unconnected steps": (
        wired(step("a", ["A"], ["X"]), step("b", ["B"], ["Y"])),
        PARTS,
    ),
    "a decoupled step": (
        wired(step("a", ["A"], ["M"], decoupled=True), step("b", ["M"], ["X"])),
        "",
    ),
    "a cache over a decoupled step": (
        wired(step("a", ["A"], ["X"], decoupled=True), ensemble={"cache": True}),
        "ensemble: has a decoupled step, and Triton does not cache such responses; drop `cache`",
    ),
    "two outputs of a decoupled step that meet": (
        wired(step("a", ["A"], ["M", "N"], decoupled=True), step("b", ["M", "N"], ["X"])),
        "",
    ),
    "a decoupled step and an input that passes it by": (
        wired(step("a", ["A"], ["M"], decoupled=True), step("b", ["M", "A"], ["X"])),
        "step b: reads M of the decoupled step a beside A; let a write both",
    ),
    "two decoupled steps that meet": (
        wired(
            step("a", ["A"], ["M"], decoupled=True),
            step("b", ["A"], ["N"], decoupled=True),
            step("c", ["M", "N"], ["X"]),
        ),
        "step c: reads M of the decoupled step a beside N; let a write both",
    ),
    "a decoupled output next to a plain one": (
        wired(step("a", ["A"], ["X"], decoupled=True), step("b", ["A"], ["Y"])),
        "outputs: has X of the decoupled step a beside Y; let a write both",
    ),
    "two readers of an open dim that agree": (
        wired(
            step("a", ["A"], ["M"]),
            step("b", {"i": sized(4)}, ["X"]),
            step("c", {"i": sized(4)}, ["Y"]),
        )
        | {"tensors": OPEN},
        "",
    ),
    "two readers of an open dim that differ": (
        wired(
            step("a", ["A"], ["M"]),
            step("b", {"i": sized(4)}, ["X"]),
            step("c", {"i": sized(5)}, ["Y"]),
        )
        | {"tensors": OPEN},
        "step b: reads M as FP32[4], but step c reads FP32[5]; "
        "make them the same, or -1 where a dim varies",
    ),
    "rows that a step has not": (
        wired(step("a", ["A"], ["M"]), step("b", ["M"], ["X"], max_batch_size=0)),
        "step b: reads M as FP32[4], but step a writes FP32[4] in each row; begin the dims without rows with -1",
    ),
    "rows that a step has not, adopted": (
        wired(step("a", ["A"], ["M"]), step("b", ["M"], ["X"], max_batch_size=0, adopted=True)),
        "",
    ),
    "more rows than a step takes": (
        wired(
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
        "step a: has `max_batch_size: 1`, but step b reads M as FP32[2, 4]; raise it to 2",
    ),
    "more rows than a request of a sequence has": (
        wired(
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
        "step a: serves sequences row by row, but step b reads M as FP32[2, 4]; write `max_batch_size: 0`",
    ),
    "one row, read in two ways": (
        wired(
            step("a", ["A"], ["M"]),
            step("b", {"i": sized(4), "j": sized(-1, 4)}, ["X"], max_batch_size=0),
            max_batch_size=1,
        )
        | {"tensors": {"A": "FP32[4]", "M": "FP32[4]", "X": "FP32[-1, 4]"}},
        "",
    ),
    "an input that a request may leave out": (
        wired(step("a", ["A", "B"], ["X"])) | {"tensors": MAYBE},
        "",
    ),
    "an input that a request may leave out, and the step may not": (
        wired(step("a", {"A": "A", "b": {"tensor": "B", "optional": False}}, ["X"]))
        | {"tensors": MAYBE},
        "step a: needs B, which requests may leave out; write `optional: true` here too, or drop it there",
    ),
    "an output that a step may leave out": (maybe(FIRST, SECOND), ""),
    "an output that a step may leave out, and the next one may not": (
        maybe(FIRST, step("b", {"A": "A", "m": {"tensor": "M", "optional": False}}, ["X"])),
        "step b: needs M, which step a may leave out; write `optional: true` here too, or drop it there",
    ),
    "an output that a step may leave out, of a model that two steps have": (
        maybe(
            FIRST, SECOND, {"name": "c", "model": "a", "inputs": {"A": "X"}, "outputs": {"M": "Y"}}
        ),
        "step c: has `optional` on M, one of its outputs; write it at the tensor, in `tensors`",
    ),
    "an output that a step may leave out, to ONNX Runtime": (
        maybe(FIRST, step("b", ["A", "M"], ["X"], "onnxruntime")),
        "model b: has the optional input M, which onnxruntime refuses with batches; "
        "drop `optional: true`, or write `max_batch_size: 0`",
    ),
    "an output that a step may leave out, and another step reads": (
        maybe(FIRST, SECOND, outputs=["M", "X"]),
        "outputs: M is read by a step too, and no copy can be made of what is left out; "
        "write `ensemble: {all_outputs: true}`",
    ),
    "an output that a step may leave out, and another step reads, with all others": (
        maybe(FIRST, SECOND, outputs=["M", "X"], **ALL),
        "",
    ),
    "nothing but outputs that a step may leave out": (
        maybe({**FIRST, "outputs": ["M", "N"]}, step("b", ["M", "N"], ["X"], fuse=False)),
        "step b: reads only M and N, which step a may leave out; drop its `optional: true`, or read another tensor too",
    ),
    "outputs that a step may leave out, all of them": (
        maybe(FIRST),
        "outputs: a step may leave out each of them; drop `optional: true` of one, or return another tensor too",
    ),
    "an optional output": (
        wired(step("a", ["A"], {"x": {"tensor": "X", "optional": True}})),
        "step a: has `optional` on x, one of its outputs; write it at the tensor, in `tensors`",
    ),
    "labels of an input": (
        wired(step("a", {"i": {"tensor": "A", "labels": "names.txt"}}, ["X"])),
        "step a: has `labels` on i, one of its inputs; only outputs have it, drop it",
    ),
    "an optional output of the ensemble": (
        wired(step("a", ["A"], ["X"]), outputs={"X": {"optional": True}}),
        "the ensemble has `optional` on X, one of its outputs; write it at the tensor, in `tensors`",
    ),
    "an output of the ensemble reshaped to another size": (
        wired(step("a", ["A"], ["X"]), outputs={"X": {"reshape": [5]}}),
        "the ensemble reshapes X from [4] to [5]; they must hold as many values",
    ),
    "labels of the ensemble in a folder": (
        wired(step("a", ["A"], ["X"]), outputs={"X": {"labels": "folder/labels.txt"}}),
        "the ensemble has its labels in folder/labels.txt; write a file name, the file lies next to the config",
    ),
    "an output of the ensemble reshaped for clients": (
        wired(step("a", ["A"], ["X"]), outputs={"X": {"dims": [2, 2], "reshape": [4]}}),
        "",
    ),
    "an input of the ensemble reshaped to what no step reads": (
        wired(step("a", ["A"], ["X"]), inputs={"A": {"reshape": [2, 2]}}),
        "step a: reads A as FP32[4], but the ensemble has FP32[2, 2]; "
        "make them the same, or -1 where a dim varies",
    ),
    "a format of an input of the ensemble": (
        wired(step("a", ["A"], ["X"]), inputs={"A": {"format": "NCHW"}}),
        "the ensemble has A of format NCHW, which needs 3 dims, not 1",
    ),
    "an output that is dropped, without dims, but with a reshape": (
        wired(step("a", ["A"], {"X": "X", "Y": {"type": "BOOL", "dims": [], "reshape": []}}))
        | {"tensors": {"A": "FP32[4]", "X": "FP32[4]"}},
        "step a: has Y without dims; a single value is [1]",
    ),
    "an output of the ensemble without dims": (
        wired(step("a", ["A"], ["X"]), outputs={"X": {"dims": []}}),
        "step a: writes X as FP32[4], but the ensemble has FP32[]; "
        "make them the same, or -1 where a dim varies",
    ),
    "a warmup of an unknown input": (
        wired(step("a", {"input": "A"}, ["X"], warmup=[{"inputs": {"inputs": "zero"}}])),
        "step a: warms up its input inputs, which it does not have; did you mean input?",
    ),
    "a warmup without an input": (
        wired(step("a", ["A", "B"], ["X"], warmup=[{"inputs": {"A": "zero"}}])),
        "step a: warms up without its input B; add `B: zero`",
    ),
    "a tensor that comes from nowhere": (
        wired(step("a", ["A", "B"], ["M"]), step("z", ["M", "B"], ["X"]), inputs=["A"]),
        "step z: reads B, which no step writes; add it to `inputs`, or let a step write it",
    ),
    "a warmup of other dims": (
        wired(step("a", ["A"], ["X"], warmup=[{"inputs": {"A": {"data": "zero", "dims": [5]}}}])),
        "step a: warms up its input A with the dims [5], which has [4]; make them the same",
    ),
    "a warmup of a dim that is left open": (
        wired(step("a", ["A"], ["X"], warmup=[{"inputs": {"A": {"data": "zero", "dims": [-1]}}}]))
        | {"tensors": {"A": "FP32[-1]", "X": "FP32[4]"}},
        "step a: warmup 1 inputs A has the dim -1; write a size, 1 or more",
    ),
    "a warmup of a dim that varies": (
        wired(step("a", ["A"], ["X"], warmup=[{"inputs": {"A": {"data": "zero", "dims": [7]}}}]))
        | {"tensors": {"A": "FP32[-1]", "X": "FP32[4]"}},
        "",
    ),
    "a warmup of too many rows": (
        wired(step("a", ["A"], ["X"], warmup=[{"batch_size": 9, "inputs": {"A": "zero"}}])),
        "step a: warms up with a batch of 9, but its `max_batch_size` is 8; lower the one or raise the other",
    ),
    "a sequence of two kinds": (
        wired(step("a", ["A"], ["X"], sequence={"direct": {}, "oldest": {}})),
        "step a: has a `sequence` both `direct` and `oldest`; drop one",
    ),
    "a correlation id of a type that Triton does not have for it": (
        wired(step("a", ["A"], ["X"], sequence=correlated("TYPE_FP32"))),
        "step a: has correlation ids of TYPE_FP32; write one of TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32, TYPE_STRING",
    ),
    "two controls of one name": (
        controlled("S", "S"),
        "step a: sequence control_input S stands twice; write both `control` in one of them, or rename one",
    ),
    "two controls": (controlled("S", "E"), ""),
    "a sequence in batches of none": (
        wired(step("a", ["A"], ["X"], sequence={"oldest": {"preferred_batch_size": [0]}})),
        "step a: sequence oldest preferred_batch_size has 0; write whole numbers from 1 to 2147483647",
    ),
    "a queue that delays, and no timeout": (delayed(timeout_action="DELAY"), ""),
    "a queue that delays after a timeout": (
        delayed(timeout_action="DELAY", default_timeout_us=5),
        DELAYS,
    ),
    "a queue that delays after a timeout, of a priority": (
        batched(
            preserve_ordering=True,
            priority_queue_policy={1: {"timeout_action": "DELAY", "default_timeout_us": 5}},
        ),
        DELAYS,
    ),
    "a policy of a priority, and no levels": (
        batched(priority_queue_policy={3: {"max_queue_size": 5}}),
        "",
    ),
    "no policy of a priority": (batched(priority_queue_policy={}), ""),
    "tensors that Python's backend does not find": (
        wired(step("a", ["A"], ["X"], declare=False)),
        "step a: has `declare: false`, but python adds no tensors to a config; drop it",
    ),
    "tensors that a model.py of one's own adds": (
        wired(step("a", ["A"], ["X"], declare=False, adopted=True)),
        "",
    ),
    "tensors that ONNX Runtime finds": (
        wired(step("a", ["A"], ["X"], "onnxruntime", declare=False)),
        "",
    ),
    "a field with an answer of its own in config": (
        wired(step("a", ["A"], ["X"], config="version_policy { all { } }")),
        "step a: has in `config` version_policy; write `versions` in its place",
    ),
    "a field that no ensemble has in its config": (
        wired(step("a", ["A"], ["X"]), ensemble={"config": "instance_group { kind: KIND_CPU }"}),
        "ensemble: has in `config` instance_group, which an ensemble does not have; write it at a step",
    ),
    "a parameter that is yes or no": (
        wired(step("a", ["A"], ["X"], parameters={"FORCE_CPU_ONLY_INPUT_TENSORS": False})),
        'step a: has FORCE_CPU_ONLY_INPUT_TENSORS: false; write "yes" or "no", in quotes',
    ),
    "a policy of a priority above the levels": (
        batched(
            priority_levels=2,
            default_priority_level=1,
            priority_queue_policy={3: {"max_queue_size": 5}},
        ),
        "step a: has a queue policy for a priority above its 2 `priority_levels`",
    ),
    "a reshape around a dim that varies": (reshaped([2, -1, 3], [1, 2, -1, 3]), ""),
    "a reshape of as many values, and others around a dim that varies": (
        reshaped([2, -1, 3], [3, -1, 2]),
        "step a: reshapes i from [2, -1, 3] to [3, -1, 2]; keep the count of values between dims of -1",
    ),
    "a reshape of dims that vary in another order": (
        reshaped([2, -1, 3, -1], [2, -1, -1, 3]),
        "step a: reshapes i from [2, -1, 3, -1] to [2, -1, -1, 3]; keep the count of values between dims of -1",
    ),
    "a step that reads what it writes, beside another": (
        wired(
            step("a", ["A"], ["N", "M"]), step("b", ["N", "K"], ["K", "Y"]), step("c", ["M"], ["X"])
        ),
        "step b: reads K, which it writes itself; let it read something else",
    ),
    "a control that is an input": (
        wired(step("a", ["A", "ID"], ["X"], sequence=correlated("TYPE_UINT64"))),
        "step a: has in `sequence` its own input ID, which Triton would write; give one of them another name",
    ),
    "a state that is an input": (
        stateful(input_name="A"),
        "step a: has in `sequence` its own input A, which Triton would write; give one of them another name",
    ),
    "a state twice": (
        wired(step("a", ["A"], ["X"], sequence={"state": [STATE, {**STATE, "output_name": "U"}]})),
        "step a: sequence state S stands twice; rename its `input_name` in one of them",
    ),
    "texts as correlation ids": (
        wired(step("a", ["A"], ["X"], sequence=correlated("TYPE_STRING"))),
        "step a: has correlation ids of TYPE_STRING, which Triton 24.10 does not support; write TYPE_UINT64",
    ),
    "texts as correlation ids of a newer release": (
        wired(step("a", ["A"], ["X"], sequence=correlated("TYPE_STRING")), triton_release="26.07"),
        "",
    ),
    "an output that a Python model cannot copy": (
        HALVES,
        "outputs: B is read by a step too, and no BF16 can be copied; write `ensemble: {all_outputs: true}`",
    ),
    "an output of all that a Python model cannot copy": (
        {**HALVES, "ensemble": {"all_outputs": True}},
        "",
    ),
    "an optional input alone": (
        {
            "tensors": MAYBE | {"Y": "FP32[4]"},
            "steps": [
                step("a", {"b": "B"}, ["X"], fuse=False),
                step("c", ["A", "X"], ["Y"], fuse=False),
            ],
        },
        "step a: reads only B, which requests may leave out; drop its `optional: true`, or read another tensor too",
    ),
    "an optional input alone, in one model with another": (
        {
            "tensors": MAYBE | {"Y": "FP32[4]"},
            "steps": [step("a", {"b": "B"}, ["X"]), step("c", ["A", "X"], ["Y"])],
        },
        "",
    ),
    "a bracket too much in config": (
        wired(step("a", ["A"], ["X"], config="}")),
        "step a: has in `config` one } without its other; add that, or drop it",
    ),
    "a bracket too few in config": (
        wired(step("a", ["A"], ["X"], config="parameters { key: '}'")),
        "step a: has in `config` one { without its other; add that, or drop it",
    ),
    "a quote too few in config": (
        wired(step("a", ["A"], ["X"], config='default_model_filename: "x')),
        'step a: has in `config` one " without its other; add that, or drop it',
    ),
    "a file of a step whose code is generated": (
        wired(step("a", ["A"], ["X"], file="other.py")),
        "step a: has the file other.py beside the generated model.py; drop `file`, or write `adopted: true`",
    ),
    "a state that is an output": (stateful(output_name="X"), ""),
    "an initial state": (stateful([4, 2]), ""),
    "an initial state of another size": (
        stateful([5, 2]),
        "step a: has the state S of dims [4, -1], but its initial state s of [5, 2]; write sizes that fit",
    ),
    "an initial state of no size": (
        stateful([4, -1]),
        "step a: sequence state S initial_state 1 has the dim -1; write a size, 1 or more",
    ),
    "two initial states": (
        stateful([4, 2], [4, 3]),
        "step a: sequence state S initial_state has 2 initial states; write 1 or less",
    ),
    "a file that Python can import": (
        wired(step("a", ["A"], ["X"], file="model.py")),
        "",
    ),
    "a file that Python cannot import": (
        wired(step("a", ["A"], ["X"], file="model.1.py")),
        "step a: has the file model.1.py, which Python cannot import; write letters, digits, `_` and `-`, then `.py`",
    ),
    "a nested ensemble": (wired(nested({"x": "A"}, {"y": "X"})), ""),
    "a nested ensemble that has settings": (
        wired(nested({"x": "A"}, {"y": "X"}, ensemble={"cache": True, "versions": [2]})),
        "",
    ),
    "a nested ensemble that has too new settings": (
        wired(
            nested({"x": "A"}, {"y": "X"}, ensemble={"max_inflight_requests": 2}),
            triton_release="25.10",
        ),
        "step inner, inside: ensemble: max_inflight_requests came with Triton 25.11; raise `triton_release` from 25.10, or drop it",
    ),
    "a model file of a later release": (
        wired(step("a", ["A"], ["X"], "pytorch", file="model.pt2"), triton_release="26.02"),
        "step a: model.pt2 came with Triton 26.03; raise `triton_release` from 26.02, or drop it",
    ),
    "a field of a later release, verbatim": (
        wired(step("a", ["A"], ["X"], config="model_metrics { }"), triton_release="24.10"),
        "step a: model_metrics came with Triton 24.11; raise `triton_release` from 24.10, or drop it",
    ),
    "a field of the answers, verbatim": (
        wired(step("a", ["A"], ["X"], config='max_batch_size: 4 # {"')),
        "step a: has in `config` max_batch_size, which the answers write already; drop it there",
    ),
    "another scheduler, verbatim": (
        wired(step("a", ["A"], ["X"], config="sequence_batching { }")),
        "step a: has in `config` sequence_batching beside dynamic_batching; write `batching: false`",
    ),
    "no field, verbatim": (
        wired(step("a", ["A"], ["X"], config="optimisation { }")),
        "step a: has in `config` optimisation, which is not a field of config.pbtxt; did you mean optimization?",
    ),
    "a field twice, verbatim": (
        wired(step("a", ["A"], ["X"], config="optimization { } optimization { }")),
        "step a: has in `config` optimization twice; drop one",
    ),
    "a field of the ensemble, verbatim": (
        wired(step("a", ["A"], ["X"]), ensemble={"config": "ensemble_scheduling { }"}),
        "ensemble: has in `config` ensemble_scheduling, which the answers write already; drop it there",
    ),
    "what holds the names of fields, verbatim": (
        wired(
            step(
                "a",
                ["A"],
                ["X"],
                config='parameters { key: "name: {" value { string_value: "x" } } # name: "',
            )
        ),
        "",
    ),
    "a backend that a release dropped": (
        wired(step("a", ["A"], ["X"], "tensorflow"), triton_release="25.03"),
        "step a: needs tensorflow, which Triton had until 25.02; lower `triton_release`, or take another backend",
    ),
    "a nested ensemble whose tensor is another": (
        wired(nested({"x": "A"}, {"y": "X"}, tensors={"x": "FP32[5]", "y": "FP32[4]"})),
        "step inner: reads A as FP32[5], but the ensemble has FP32[4]; "
        "make them the same, or -1 where a dim varies",
    ),
    "a nested ensemble that declares other dims": (
        wired(
            nested(
                {"x": {"tensor": "A", "dims": [4]}},
                {"y": "X"},
                tensors={"x": "FP32[-1]", "y": "FP32[4]"},
            )
        ),
        "",
    ),
    "a nested ensemble that reshapes": (
        wired(
            nested(
                {"x": {"tensor": "A", "dims": [4], "reshape": [2, 2]}},
                {"y": "X"},
                tensors={"x": "FP32[2, 2]", "y": "FP32[4]"},
            )
        ),
        "",
    ),
    "a field of a step at an ensemble": (
        wired(nested({"x": "A"}, {"y": "X"}, instances=2)),
        "step inner: has `instances`, but is an ensemble; write it at a step inside",
    ),
    "a field of an ensemble at its step": (
        wired(nested({"x": "A"}, {"y": "X"}, cache=True)),
        "step inner: has `cache`, but is an ensemble; write `ensemble: {cache: ...}`",
    ),
    "a field of an ensemble at another step": (
        wired(step("a", ["A"], ["X"], tensors={"x": "FP32[4]"})),
        "step a: has `tensors`, which only a step of `backend: ensemble` has; drop it",
    ),
    "a field of a model at a step that is served by another's": (
        wired(
            step("a", ["A"], ["M"]),
            {
                "name": "b",
                "model": "a",
                "inputs": {"A": "M"},
                "outputs": {"M": "X"},
                "instances": 2,
            },
        ),
        "step b: has `instances`, but is served by the model of a; write it there",
    ),
    "the model of no step": (
        wired(
            step("a", ["A"], ["M"]), {"name": "b", "model": "z", "inputs": ["M"], "outputs": ["X"]}
        ),
        "step b: is served by the model of z, which is not a step beside it that has its own model",
    ),
    "the model of the step itself": (
        wired(
            step("a", ["A"], ["M"]), {"name": "b", "model": "b", "inputs": ["M"], "outputs": ["X"]}
        ),
        "step b: is served by the model of b, which is not a step beside it that has its own model",
    ),
    "the model of a step inside": (
        wired(
            nested({"x": "A"}, {"y": "M"}, steps=[step("within", ["x"], ["y"], fuse=False)]),
            {"name": "b", "model": "within", "inputs": {"x": "M"}, "outputs": {"y": "X"}},
        ),
        "",
    ),
    "the model of a step inside that is fused": (
        wired(
            nested(
                {"x": "A"},
                {"y": "M"},
                tensors=dict.fromkeys("xty", "FP32[4]"),
                steps=[step("within", ["x"], ["t"]), step("last", ["t"], ["y"])],
            ),
            {"name": "b", "model": "within", "inputs": {"x": "M"}, "outputs": {"t": "X"}},
        ),
        "step b: is served by the model of within, which is not a step beside it that has its own model",
    ),
    "an input that the shared model does not have": (
        wired(
            step("a", {"text": "A"}, {"score": "M"}),
            {"name": "b", "model": "a", "inputs": {"texts": "M"}, "outputs": {"score": "X"}},
        ),
        "step b: reads M as texts, but its model a does not have texts; did you mean text?",
    ),
    "an output that the shared model does not have": (
        wired(
            step("a", {"text": "A"}, {"score": "M"}),
            {"name": "b", "model": "a", "inputs": {"text": "M"}, "outputs": {"scores": "X"}},
        ),
        "step b: writes X as scores, but its model a does not have scores; did you mean score?",
    ),
    "an input of the shared model without a tensor": (
        wired(
            step("a", {"text": "A", "hint": "H"}, {"score": "M"}),
            {"name": "b", "model": "a", "inputs": {"text": "M"}, "outputs": {"score": "X"}},
        ),
        "step b: does not feed hint, which its model a needs; add it to `inputs`",
    ),
    "calls of a step that is none": (
        wired(step("a", ["A"], ["X"], calls=["halv"]), step("halve", ["A"], ["Y"])),
        "step a: calls halv, which is not a step; did you mean halve?",
    ),
    "a step that calls itself": (
        wired(step("a", ["A"], ["X"], calls=["a"])),
        f"step a: {FOR_EVER}: a -> a; drop one from `calls`",
    ),
    "steps that call each other, over a third": (
        wired(
            step("a", ["A"], ["M"], calls=["c"]),
            step("b", ["M"], ["X"], calls=["c", "a"]),
            step("c", ["A"], ["Y"], calls=["b"]),
        ),
        f"step a: {FOR_EVER}: a -> c -> b -> a; drop one from `calls`",
    ),
    "a step that calls one that its own model serves": (
        wired(
            step("a", {"i": "A"}, {"o": "M"}, calls=["b"]),
            {"name": "b", "model": "a", "inputs": {"i": "M"}, "outputs": {"o": "X"}},
        ),
        f"step a: {FOR_EVER}: a -> b; drop one from `calls`",
    ),
    "steps that call the same one": (
        wired(
            step("a", ["A"], ["M"], calls=["b", "c"]),
            step("b", ["M"], ["X"], calls=["c"]),
            step("c", ["A"], ["Y"]),
        ),
        "",
    ),
    "adopted models that name each other": (
        wired(
            step("a", ["A"], ["M"], adopted=True, calls=["b"]),
            step("b", ["M"], ["X"], adopted=True, calls=["a"]),
        ),
        "",
    ),
    "a call of a step of sequences": (
        wired(
            step("a", ["A"], ["M"], calls=["b"]), step("b", ["M"], ["X"], sequence={"direct": {}})
        ),
        "",
    ),
}
