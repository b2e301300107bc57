"""Shared by tests: any kind of value at any place of the answers: accepted, or refused in one line; never a traceback, never a config that does not parse."""

from __future__ import annotations

import datetime
import math
import os
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from support import step

# More, and others: HOSTILE=100000 SEED=7 python -m pytest tests/unit/test_hostile_answers.py
HOSTILE = int(os.environ.get("HOSTILE", 400))
SEED = int(os.environ.get("SEED", 0))

Answers = dict[str, Any]
POLICY = {
    "timeout_action": "REJECT",
    "default_timeout_us": 5,
    "allow_timeout_override": True,
    "max_queue_size": 9,
}
CONTROL = {
    "name": "START",
    "control": [{"kind": "CONTROL_SEQUENCE_START", "fp32_false_true": [0, 1]}],
}
CORRELATION = {
    "name": "ID",
    "control": [{"kind": "CONTROL_SEQUENCE_CORRID", "data_type": "TYPE_UINT64"}],
}
STATE = {
    "input_name": "S",
    "output_name": "T",
    "data_type": "TYPE_FP32",
    "dims": [2],
    "initial_state": [{"data_type": "TYPE_FP32", "dims": [2], "zero_data": True, "name": "zero"}],
    "use_same_buffer_for_input_output": False,
    "use_growable_memory": False,
}
FILLED = STATE | {
    "input_name": "U",
    "output_name": "V",
    "initial_state": [
        {"data_type": "TYPE_FP32", "dims": [2], "data_file": "first", "name": "file"}
    ],
}
FLAG = {
    "name": "END",
    "control": [{"kind": "CONTROL_SEQUENCE_END", "bool_false_true": [False, True]}],
}
READY = {
    "name": "READY",
    "control": [{"kind": "CONTROL_SEQUENCE_READY", "int32_false_true": [0, 1]}],
}
DIRECT = {"max_queue_delay_microseconds": 3, "minimum_slot_utilization": 0.5}
# Each field of the grammar, at its work.
RICH: Answers = {
    "project_name": "rich",
    "ensemble_name": "rich",
    "starting_pipeline": "my-own",
    "triton_release": "26.07",
    "gpu_count": 2,
    "max_batch_size": 4,
    "max_queue_delay_us": 50,
    "extras": ["monitoring"],
    "ci": "github",
    "gpu_runner": "self-hosted, gpu",
    "torch_index": "https://pypi.example.com/cpu",
    "tensors": {
        "A": {
            "type": "FP32",
            "dims": [3, 2, 2],
            "optional": True,
            "ragged": True,
            "format": "NCHW",
        },
        "B": "FP32[12]",
        "C": {"type": "FP32", "dims": [4], "labels": "names.txt"},
        "D": "FP32[4]",
        "E": "FP32[4]",
        "F": "FP32[2]",
        "G": "FP32[2]",
        "H": "FP32[1]",
        "I": "FP32[1]",
    },
    "inputs": {
        "A": {
            "dims": [3, 2, 2],
            "type": "FP32",
            "optional": True,
            "ragged": True,
            "format": "NCHW",
        },
        "H": None,
    },
    "outputs": {
        "C": {},
        "D": {"labels": "names.txt", "reshape": [4]},
        "E": None,
        "F": None,
        "G": {"dims": [2], "type": "FP32"},
        "I": None,
    },
    "ensemble": {
        "cache": True,
        "versions": [1],
        "parameters": {"a": 1},
        "max_inflight_requests": 3,
        "all_outputs": True,
        "adopted": True,
        "config": "# more",
    },
    "stages": {
        "prod": {
            "gpu_count": 2,
            "replicas": 2,
            "cpu": "1",
            "memory": "4Gi",
            "steps": {"net": {"instances": 2}},
        }
    },
    "steps": [
        step(
            "one",
            ["A", "H"],
            {
                "b": {"tensor": "B", "dims": [12], "reshape": [3, 4]},
                "c": {"type": "INT8", "dims": [1]},
            },
            max_batch_size=8,
            instances=[{"device": "gpu", "instances": 2, "gpus": [0, 1]}, {"device": "cpu"}],
            batching={
                "preferred_batch_size": [2, 4],
                "max_queue_delay_us": 7,
                "preserve_ordering": False,
                "priority_levels": 2,
                "default_priority_level": 1,
                "default_queue_policy": POLICY,
                "priority_queue_policy": {1: POLICY},
            },
            cache=True,
            versions={"latest": 1},
            warmup=[
                {
                    "name": "w",
                    "batch_size": 1,
                    "count": 2,
                    "inputs": {"A": {"data": "zero", "dims": [3, 2, 2]}, "H": "zero"},
                }
            ],
            parameters={"a": "b", "n": 1.5},
            metric_tags={"team": "a"},
            calls=["net"],
            requirements=["pillow"],
            decoupled=False,
            fuse=False,
        ),
        step(
            "net",
            {"i": {"tensor": "B", "type": "FP32", "dims": [12], "ragged": True, "optional": False}},
            {"o": {"tensor": "C", "labels": "names.txt"}},
            "onnxruntime",
            device="gpu",
            gpus=[1],
            instances=2,
            accelerator={"tensorrt": {"precision_mode": "FP16"}},
            file="net.onnx",
            config="# a text",
            version=1,
            declare=True,
            adopted=True,
        ),
        {
            "name": "again",
            "model": "net",
            "version": 1,
            "inputs": {"i": "B"},
            "outputs": {"o": "D"},
        },
        step(
            "seq",
            {"i": "B"},
            {"o": {"type": "FP32", "dims": [1], "reshape": [1]}, "e": "E"},
            "my_backend",
            max_batch_size=4,
            sequence={
                "max_sequence_idle_microseconds": 5,
                "oldest": {
                    "max_candidate_sequences": 4,
                    "preferred_batch_size": [2],
                    "max_queue_delay_microseconds": 3,
                    "preserve_ordering": True,
                },
                "control_input": [CONTROL, CORRELATION, FLAG, READY],
                "state": [STATE, FILLED],
                "iterative_sequence": False,
            },
        ),
        step(
            "slots",
            {"i": "B"},
            {"G": "G"},
            "my_backend",
            max_batch_size=4,
            sequence={"direct": DIRECT, "control_input": [CONTROL]},
        ),
        step(
            "plan",
            {"i": "B"},
            {"o": "I"},
            "tensorrt",
            trtexec={
                "shapes": {"i": {"min": [12], "opt": [12], "max": [12]}},
                "flags": ["--fp16"],
            },
        ),
        {
            "name": "inner",
            "backend": "ensemble",
            "max_batch_size": 4,
            "version": 1,
            "inputs": {"X": {"tensor": "B", "dims": [12]}},
            "outputs": {"Y": "F"},
            "tensors": {"X": "FP32[12]", "Y": "FP32[2]"},
            "steps": [step("within", ["X"], ["Y"])],
            "ensemble": {"cache": True},
        },
    ],
}
ODD: list[Any] = [
    None, True, False, 0, -1, 3, 2**31, 2**64, 1.5, math.nan, math.inf,
    "", " ", "it's", 'say "no"', "a\nb", "#{", "{{ x }}", "{% if %}", "\x00", "\t", "é", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "x" * 300, "../x", "1", "null",
    [], [[]], [None], [1, "a"], [{}], {}, {"a": None}, {None: 1}, {True: {}}, {1: [2]}, {"a": {"b": []}}, {"": ""},
    datetime.date(2026, 1, 2), b"bytes", {1, 2}, {datetime.date(2026, 1, 2): 1},
]  # fmt: skip
Place = tuple[Any, ...]


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    items = (
        value
        if isinstance(value, dict)
        else dict(enumerate(value))
        if isinstance(value, list)
        else {}
    )
    for key, item in items.items():
        yield (*place, key)
        yield from places(item, (*place, key))


def changed(place: Place, odd: Any) -> Answers:
    answers = deepcopy(RICH)
    *above, last = place
    at: Any = answers
    for key in above:
        at = at[key]
    at[last] = odd
    return answers


def as_copier_reads_it(place: Place, odd: Any) -> bool:
    """Return whether Copier makes a number of a text before the checks of the graph see it."""
    return odd != "1" or place[0] not in ("gpu_count", "max_batch_size", "max_queue_delay_us")


HOSTILE_ANSWERS = [
    (place, odd) for place in places(RICH) for odd in ODD if as_copier_reads_it(place, odd)
]
CHOSEN = random.Random(SEED).sample(HOSTILE_ANSWERS, min(HOSTILE, len(HOSTILE_ANSWERS)))
