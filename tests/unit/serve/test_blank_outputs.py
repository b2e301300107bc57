"""The stand-in for TensorRT-LLM answers all outputs that a config declares."""

from __future__ import annotations

import json
import runpy
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
from fake_triton import importable_backends

from triton_ensemble.serve.local.environment import BACKENDS

OUTPUTS = {
    "output_ids": ["-1", "-1"],
    "sequence_length": ["-1"],
    "cum_log_probs": ["-1"],
    "context_logits": ["-1", "7"],
}


def test_each_declared_output_is_answered() -> None:
    types = {"TYPE_FP32": np.float32, "TYPE_INT32": np.int32}
    utils = SimpleNamespace(triton_string_to_numpy=types.get, Logger=Mock())
    with importable_backends(utils):
        model = runpy.run_path(str(BACKENDS / "tensorrtllm/model.py"))["TritonPythonModel"]()
    outputs = [
        {
            "name": name,
            "data_type": "TYPE_INT32" if i < 2 else "TYPE_FP32",
            "dims": dims,
        }
        for i, (name, dims) in enumerate(OUTPUTS.items())
    ]
    config = {
        "name": "llm",
        "max_batch_size": 4,
        "instance_group": [],
        "parameters": {},
        "input": [{"name": "input_ids", "data_type": "TYPE_INT32", "dims": ["-1"]}],
        "output": outputs,
    }
    given = dict.fromkeys(("model_instance_kind", "model_repository", "model_version"), "1")
    model.initialize({**given, "model_config": json.dumps(config), "model_instance_device_id": "0"})
    [answer] = model.pieces({"input_ids": np.array([[1, 2, 3]], np.int32)})
    assert {name: array.shape for name, array in answer.items()} == {
        "output_ids": (1, 1, 1),
        "sequence_length": (1, 1),
        "cum_log_probs": (1, 1),
        "context_logits": (1, 1, 7),
    }
    assert {answer[name].dtype for name in ("cum_log_probs", "context_logits")} == {
        np.dtype(np.float32)
    }
