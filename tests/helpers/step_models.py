"""Python models whose steps do what a step can do, well and badly."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from support import write_adapter

HEAD = """
import numpy as np
from triton_step import InvalidRequest, text
class Step:
    def __init__(self, context):
        self.context = context
"""

MANIFEST = {"module": "it", "arrays": "numpy", "results": {}, "calls": {}}


def write_step(
    repository: Path,
    name: str,
    call: str,
    inputs: str = "IN FP32 4",
    outputs: str = "OUT FP32 4",
    more: str = "",
    batch: int = 8,
    **manifest: Any,
) -> Path:
    """Write a model whose step has the body `call`. Tensors are `NAME TYPE DIMS [FLAG ...]`, with `;` between them."""
    version = repository / name / "1"
    (version / "steps").mkdir(parents=True)
    write_adapter(version)
    names = [tensor.split()[0] for tensor in inputs.split(";")]
    arguments = {name: name for name in names}
    manifest = {**MANIFEST, "name": name, "arguments": arguments, **manifest}
    (version / "step.json").write_text(json.dumps(manifest))
    body = "".join(f"    {line}\n" for line in call.strip("\n").split("\n"))
    (version / "steps" / "it.py").write_text(HEAD + body)
    scheduling = "" if "batching" in more or not batch else "dynamic_batching {}"
    (version.parent / "config.pbtxt").write_text(
        f'backend: "python"\nmax_batch_size: {batch}\n{tensors("input", inputs)}'
        f"{tensors('output', outputs)}instance_group {{ kind: KIND_CPU }}\n{scheduling}\n{more}"
    )
    return version


def tensors(side: str, given: str) -> str:
    blocks = ""
    for tensor in given.split(";"):
        name, kind, dims, *flags = tensor.split()
        more = " ".join(f"{flag}: true" for flag in flags)
        blocks += f'{side} {{ name: "{name}" data_type: TYPE_{kind} dims: [{dims}] {more} }}\n'
    return blocks


MISBEHAVES = """
def __call__(self, IN):
    codes = set(IN[:, 0].astype(int).tolist())
    out = IN * 2
    if 1 in codes: raise InvalidRequest("IN: 1 is refused; send another")
    if 2 in codes: raise RuntimeError("/secret/path is missing")
    if 3 in codes: out = out.astype(np.float64)
    if 4 in codes: out = out[:, :3]
    if 5 in codes: return {}
    if 6 in codes: return {"OUT": out, "MORE": out}
    if 7 in codes: return None
    if 8 in codes: return (out,)
    if 9 in codes: out = out[1:]
    if 10 in codes: IN[:] = 0
    if 11 in codes: return {"OUT": out.tolist()}
    if 12 in codes: raise RuntimeError("pr\\udcc3")
    if 13 in codes: raise InvalidRequest("pr\\udcc3 is refused")
    return {"OUT": out}
"""


def called(model: str, outputs: list[str], **arguments: str) -> dict[str, Any]:
    return {"name": model, "version": -1, "arguments": arguments, "outputs": outputs}


def _write_rows(repository: Path) -> None:
    """Write steps that return other rows, arrays and types than they should, and rows of any length."""
    write_step(repository, "bad", MISBEHAVES)
    write_step(repository, "rows", "def __call__(self, IN):\n    return {'OUT': IN * 0 + len(IN)}")
    write_step(
        repository,
        "ragged",
        """
def __call__(self, A, B):
    total = A.sum(axis=1, keepdims=True)
    return {"SUM": total if B is None else total + B, "WIDE": A}
""",
        "A FP32 -1 allow_ragged_batch; B FP32 1 optional allow_ragged_batch",
        "SUM FP32 1; WIDE FP32 -1",
    )


def _write_tensors(repository: Path) -> None:
    """Write steps of texts, of tensors without a batch dimension, and of tensors with odd names."""
    write_step(
        repository,
        "texts",
        """
def __call__(self, IN):
    out = np.array([t.upper() for t in text(IN).flat], dtype=object).reshape(IN.shape)
    if (IN == b"none").any(): out[:] = None
    if (IN == b"numpy").any(): out = out.astype(np.str_)
    return {"OUT": out}
""",
        "IN STRING -1",
        "OUT STRING -1",
    )
    write_step(
        repository,
        "unbatched",
        "def __call__(self, IN):\n    return {'OUT': IN[::-1]}",
        "IN INT64 -1",
        "OUT INT64 -1",
        batch=0,
    )
    write_step(
        repository,
        "odd_names",
        """
def __call__(self, in_, _1):
    from dataclasses import dataclass
    @dataclass
    class Outputs:
        class_: object
    return Outputs(class_=in_ + _1)
""",
        "in FP32 2; 1 FP32 2",
        "class FP32 2",
        arguments={"in_": "in", "_1": "1"},
        results={"class_": "class"},
    )


def _write_asynchronous(repository: Path) -> None:
    """Write a step that waits."""
    asynchronous = """
async def __call__(self, IN):
    import asyncio
    await asyncio.sleep(0.05)
    if IN[0, 0] == 1: raise InvalidRequest("no 1")
    return {"OUT": IN + 1}
"""
    write_step(
        repository, "asynchronous", asynchronous, "IN FP32 -1 allow_ragged_batch", "OUT FP32 -1"
    )


def _write_callers(repository: Path) -> None:
    """Write steps that call other models."""
    calls = {
        "rag_ged": called("ragged", ["SUM"], a="A", B="B"),
        "bad": called("bad", ["OUT"], IN="IN"),
    }
    write_step(
        repository,
        "caller",
        """
def __call__(self, IN):
    total = self.context.calls.rag_ged(a=IN, B=None)["SUM"]
    return {"OUT": self.context.calls.bad(IN=IN)["OUT"] + total}
""",
        calls=calls,
    )
    write_step(
        repository,
        "async_caller",
        """
async def __call__(self, IN):
    import asyncio
    calls = self.context.calls
    a, b = await asyncio.gather(calls.rag_ged(a=IN, B=None), calls.bad(IN=IN))
    return {"OUT": a["SUM"] + b["OUT"]}
""",
        calls=calls,
    )


def _write_streams(repository: Path) -> None:
    """Write decoupled steps."""
    decoupled = "model_transaction_policy { decoupled: true }"
    stream = """
{}def __call__(self, IN):
    for i in range(int(IN[0, 0])):
        if i == 3: raise InvalidRequest("at most 3")
        yield {{"OUT": IN + i}}
"""
    write_step(repository, "stream", stream.format(""), more=decoupled)
    write_step(repository, "async_stream", stream.format("async "), more=decoupled)


def _write_sequences(repository: Path) -> None:
    """Write steps that keep a state for each sequence."""
    sums = """
state = {{}}
def __call__(self, position, /, IN{}):
    if position.start: self.state[position.id] = IN * 0
    self.state[position.id] = self.state[position.id] + IN
    total = self.state.pop(position.id) if position.end else self.state[position.id]
    return {{"OUT": total}}
"""
    oldest = "sequence_batching { oldest { max_candidate_sequences: 8 } }"
    write_step(repository, "oldest", sums.format(""), more=oldest)
    kinds = {"START": "START fp32_false_true: [0, 1]", "ID": "CORRID data_type: TYPE_UINT64"}
    controls = ", ".join(
        f'{{ name: "{name}" control {{ kind: CONTROL_SEQUENCE_{kind} }} }}'
        for name, kind in kinds.items()
    )
    check = sums.format(", START, ID").replace(
        "):", "):\n    assert (START.item(), ID.item()) == (position.start, position.id)"
    )
    write_step(
        repository,
        "direct",
        check,
        arguments={name: name for name in ("IN", *kinds)},
        more=f"sequence_batching {{ direct {{}} control_input [ {controls} ] }}",
    )


def _write_timed(repository: Path) -> None:
    """Write steps whose calls take time and are counted."""
    fixed_cost = """
def __call__(self, IN):
    import time
    if (IN < 0).any(): raise InvalidRequest("below 0")
    time.sleep(0.003)
    self.context.metrics.counter("fixed_calls_total", "Calls").add(1)
    return {"OUT": IN * 2}
"""
    write_step(repository, "fixed_cost", fixed_cost)
    write_step(
        repository,
        "slow",
        """
def __call__(self, IN):
    import time
    self.context.logger.warning("sleeps")
    time.sleep(max(0.3, float(IN.max())))
    self.context.metrics.counter("slow_rows_total", "Rows").add(len(IN))
    self.context.logger.warning("has slept, %s", self.context.version)
    return {"OUT": IN}
""",
    )


def _write_torch(repository: Path) -> None:
    """Write a step that takes tensors of PyTorch, where that is installed."""
    if find_spec("torch"):
        torch = """
def __call__(self, IN, TEXT):
    import torch
    assert isinstance(IN, torch.Tensor)
    return {"OUT": (IN.T * 2).T, "TEXT_OUT": TEXT}
"""
        write_step(
            repository,
            "torch_step",
            torch,
            "IN FP32 4; TEXT STRING 1",
            "OUT FP32 4; TEXT_OUT STRING 1",
            arrays="torch",
        )


def write_models(repository: Path) -> None:
    """Write all models of this module."""
    _write_rows(repository)
    _write_tensors(repository)
    _write_asynchronous(repository)
    _write_callers(repository)
    _write_streams(repository)
    _write_sequences(repository)
    _write_timed(repository)
    _write_torch(repository)
