"""Steps that share a model, on a real Triton: they answer as they do apart, with errors and metrics of each step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

import numpy as np
from asking import Arrays, Client, asked, connect
from support import Generate, Project, succeed
from test_fusion import CHAIN
from test_wiring import wired

from tools.serve import LocalTriton

# The code of steps: what they compute shows which of them ran, and in which order.
NUMBERS = """
import numpy as np
from triton_step import InvalidRequest


class Step:
    def __init__(self, context):
        self.context = context
        self.calls = context.metrics.counter("own_calls_total", "Calls")

    def __call__(self, {arguments}):
        self.calls.add()
{body}
"""


def code(arguments: str, *body: str) -> str:
    return NUMBERS.format(arguments=arguments, body="\n".join(f"        {line}" for line in body))


def written(generate: Generate, answers: dict[str, Any], steps: dict[str, str]) -> Project:
    """A project whose steps have this code."""
    project = generate(**{"project_name": "served", **answers})
    for name, text in steps.items():
        (project / f"steps/{name}.py").write_text(text)
    succeed(project.make("repository"))
    return project


@contextmanager
def served(
    generate: Generate, answers: dict[str, Any], steps: dict[str, str]
) -> Iterator[tuple[LocalTriton, Client]]:
    project = written(generate, answers, steps)
    with (
        LocalTriton(project / "model_repository", "served") as triton,
        connect(triton) as client,
    ):
        yield triton, client


def four(first: float, rows: int = 1) -> Any:
    array = np.zeros((rows, 4), np.float32)
    array[:, 0] = first
    return array


def metric(triton: LocalTriton, name: str, **labels: str) -> float:
    time.sleep(1)
    with urlopen(triton.metrics_url, timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    found = [x for x in lines if x.startswith(name + "{") and all(text in x for text in wanted)]
    return sum(float(line.split()[-1]) for line in found)


MISBEHAVES = {
    "a": code(
        "A",
        "self.buffer = getattr(self, 'buffer', np.zeros((8, 4), np.float32))",
        "out = np.multiply(A, 2, out=self.buffer[: len(A)])",
        "if (A == 1).any(): raise InvalidRequest('A: 1 is refused')",
        "if (A == 2).any(): out = out.astype(np.float64)",
        "if (A == 3).any(): out = out[:, :2]",
        "return {'M': out}",
    ),
    "b": code(
        "M",
        "codes = set(M[:, 0].tolist())",
        "if 8 in codes: raise InvalidRequest('M: 8 is refused')",
        "if 10 in codes: raise RuntimeError('/secret/path')",
        "if 12 in codes: M[:] = 0",
        "if 14 in codes: return None",
        "if 16 in codes: M = M[1:]",
        "texts = [f'{value:g}ü' for value in M[:, 0]]",
        "if 18 in codes: texts[0] = None",
        "return {'N': np.array(texts, object).reshape(-1, 1)}",
    ),
    "c": code(
        "N",
        "assert all(type(text) is bytes for text in N.flat), N",
        "out = np.zeros((len(N), 4), np.float32)",
        "out[:, 0] = [float(text.decode()[:-1]) + 1 for text in N.flat]",
        "if (out == 41).any(): raise InvalidRequest('N: 40 is refused')",
        "return {'X': out}",
    ),
}
ERRORS = {
    1: "step a: A: 1 is refused",
    2: "step a: returned float64 for M, which is float32; convert it with astype",
    3: "step a: returned the shape [1, 2] for M, not [1, 4]",
    4: "step b: M: 8 is refused",
    5: "step b failed; the server's log says why",
    6: "step b failed; the server's log says why",
    7: "step b: returned NoneType; return a mapping from output names to arrays",
    8: "step b: returned the shape [0, 1] for N, not [1, 1]",
    9: "step b: returned NoneType in N, which holds bytes or str",
    20: "step c: N: 40 is refused",
}


def test_errors_are_those_of_a_step_and_a_request(generate: Generate) -> None:
    """Whether alone or among good ones in a call: whose it is, what it is, and nobody else's."""
    answers = wired(*CHAIN) | {"tensors": {**dict.fromkeys("AMX", "FP32[4]"), "N": "STRING[1]"}}
    with served(generate, answers, MISBEHAVES) as (triton, client):
        for code_, error in ERRORS.items():
            answer = asked(client, "served", {"A": four(code_)})
            assert answer == f"in ensemble 'served', {error}"
        codes = [30, 1, 31, 4, 32, 33, 5, 34, 20, 35, 7, 36, 37, 9, 38, 39]

        def ask(code_: int) -> Arrays | str:
            return asked(client, "served", {"A": four(code_)})

        with ThreadPoolExecutor(len(codes)) as pool:
            for _ in range(20):
                for code_, answer in zip(codes, pool.map(ask, codes), strict=True):
                    if code_ in ERRORS:
                        assert answer == f"in ensemble 'served', {ERRORS[code_]}"
                    else:
                        assert isinstance(answer, dict), answer
                        assert answer["X"][0, 0] == 2 * code_ + 1
        model = {"model": "a_to_c", "version": "1"}
        counted = {
            name: {s: metric(triton, f"step_{name}_total", step=s, **model) for s in "abc"}
            for name in ("rejected", "failed", "calls", "seconds")
        }
        assert counted["rejected"] == {"a": 21, "b": 21, "c": 21}
        assert counted["failed"]["a"] == 2
        assert counted["failed"]["b"] == 5 + 3 * 20
        assert counted["failed"]["c"] == 0
        assert counted["calls"]["a"] > counted["calls"]["c"] > 0
        assert all(seconds > 0 for seconds in counted["seconds"].values())
        assert metric(triton, "own_calls_total", step="b") == counted["calls"]["b"]
        assert "/secret/path" in triton.log.read_text()
        assert "step b failed" in triton.log.read_text()
