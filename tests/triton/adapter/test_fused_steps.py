"""Steps that share a model, on a real Triton: they answer as they do unfused, with errors and metrics of each step."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from asking import Arrays, Client, asked, connect, four, metric
from fusion_support import CHAIN
from step_code import step_code
from support import Generate, Project, step, succeed
from wiring_support import wired

from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.testing.harness import config_json

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
    """Return a project whose steps have this code."""
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


@pytest.mark.slow
def test_errors_are_those_of_a_step_and_a_request(generate: Generate) -> None:
    """An error says whose it is and what it is, alone or among good ones in a call, and nobody else has it."""
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


ASYNC = step_code(
    """
async def __call__(self, M):
    await asyncio.sleep(0.05)
    return {"N": M.copy()}
""",
    "import asyncio",
)
TWICE = code("M", "return {'X': M * 2}")
OPTIONAL = {"type": "FP32", "dims": [4], "optional": True}
# Each: the answers, and the code of steps; all are served by one server.
Cases = dict[str, tuple[dict[str, Any], dict[str, str]]]
CASES: Cases = {
    "async": (
        wired(
            step("a1", ["A"], ["M"]),
            step("a2", ["M"], ["N"]),
            step("a3", ["M", "N"], ["X"]),
            max_batch_size=2,
        ),
        {
            "a1": code(
                "A",
                "self.buffer = getattr(self, 'buffer', np.zeros((2, 4), np.float32))",
                "return {'M': np.add(A, 1, out=self.buffer[: len(A)])}",
            ),
            "a2": ASYNC,
            "a3": code("M, N", "return {'X': M + N}"),
        },
    ),
    "optional": (
        wired(step("o1", ["A", "B"], ["M"]), step("o2", ["M", "B"], ["X"]))
        | {"tensors": {**dict.fromkeys("AMX", "FP32[4]"), "B": OPTIONAL}},
        {
            "o1": code("A, B", "return {'M': A if B is None else A + B}"),
            "o2": code("M, B", "return {'X': M if B is None else M * B}"),
        },
    ),
    "unbatched": (
        wired(step("u1", ["A"], ["M"]), step("u2", ["M", "A"], ["X"]))
        | {"max_batch_size": 0, "tensors": dict.fromkeys("AMX", "FP32[-1]")},
        {
            "u1": code("A", "return {'M': A[::2]}"),
            "u2": code("M, A", "return {'X': np.concatenate([M, A])}"),
        },
    ),
    "parameters": (
        wired(
            step("p1", ["A"], ["M"], parameters={"factor": 2}),
            step("p2", ["M"], ["X"], parameters={"factor": 3, "flag": True}),
        ),
        {
            "p1": code("A", "return {'M': A * int(self.context.parameters['factor'])}"),
            "p2": code(
                "M",
                "assert self.context.parameters == {'factor': '3', 'flag': 'true'}",
                "return {'X': M * int(self.context.parameters['factor'])}",
            ),
        },
    ),
    "onnx": (
        wired(
            step("n1", ["A"], ["M"]),
            step(
                "n2",
                {"in.1": "M"},
                {"out:0": "N", "text": "T", "more": {"type": "INT64", "dims": [1]}},
                "onnxruntime",
                fuse=True,
                instances=2,
            ),
            step("n3", ["N", "T", "M"], ["X"]),
        )
        | {"tensors": {**dict.fromkeys("AMNX", "FP32[4]"), "T": "STRING[1]"}},
        {
            "n1": code("A", "return {'M': A + 1}"),
            "n3": code("N, T, M", "assert (T == b'').all()", "return {'X': N + M}"),
        },
    ),
    "calls": (
        wired(
            step("c1", ["A"], ["M"], calls=["c3"], fuse=True),
            step("c2", ["M"], ["X"]),
            step("c3", ["A"], ["Y"]),
        ),
        {
            "c1": code("A", "return {'M': self.context.calls.c3(A=A)['Y']}"),
            "c2": TWICE,
            "c3": code("A", "return {'Y': A + 5}"),
        },
    ),
    "kept": (
        wired(
            step("k1", ["A"], ["M", "N"]), step("k2", ["M"], ["O"]), step("k3", ["N", "O"], ["X"])
        ),
        {
            "k1": code(
                "A",
                "out = np.asfortranarray(np.repeat(A, 4, axis=1)[:, ::4] + 1)",
                "return {'M': out, 'N': out}",
            ),
            "k2": code(
                "M", "assert M.flags.c_contiguous and not M.flags.writeable", "return {'O': M}"
            ),
            "k3": code("N, O", "return {'X': N + O}"),
        },
    ),
}
TORCH = step_code(
    """
def __call__(self, {arguments}):
    {body}
""",
    "import torch",
    init="self.device = context.device",
)
ON_GPU: dict[str, Any] = {"device": "gpu", "requirements": ["torch"], "fuse": True}
if find_spec("torch"):
    CASES["torch"] = (
        wired(
            step("g1", ["A"], ["M"], **ON_GPU),
            step("g2", ["M"], ["N"], **ON_GPU),
            step("g3", ["M", "N"], ["X"], **ON_GPU),
            gpu_count=1,
        ),
        {
            "g1": TORCH.format(arguments="A", body="return {'M': (A.T + 1).T.requires_grad_()}"),
            "g2": TORCH.format(
                arguments="M",
                body="assert M.is_contiguous() and not M.requires_grad; return {'N': M.mul_(3)}",
            ),
            "g3": TORCH.format(arguments="M, N", body="return {'X': M + N}"),
        },
    )
SHARED = {
    "async": "a1_to_a3",
    "optional": "o1_to_o2",
    "unbatched": "u1_to_u2",
    "parameters": "p1_to_p2",
    "onnx": "n1_to_n3",
    "calls": "c1_to_c2",
    "kept": "k1_to_k3",
    "torch": "g1_to_g3",
}


@pytest.fixture(scope="module")
def repository(generate: Generate, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the models of all cases. An ensemble has the name of its case."""
    return collected(generate, tmp_path_factory.mktemp("all"), CASES)


@pytest.fixture(scope="module")
def alone(generate: Generate, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cases as one model each, without an ensemble, which a step that calls another can't be."""
    cases = {name: case for name, case in CASES.items() if name != "calls"}
    return collected(generate, tmp_path_factory.mktemp("alone"), cases, ensemble=False)


def collected(generate: Generate, folder: Path, cases: Cases, **more: Any) -> Path:
    for name, (answers, steps) in cases.items():
        project = written(generate, {**answers, "project_name": name, **more}, steps)
        for model in (project / "model_repository").iterdir():
            if model.is_dir():
                model.rename(folder / model.name)
    return folder


@pytest.fixture(scope="module", params=["repository", "alone"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    repository = request.getfixturevalue(request.param)
    with LocalTriton(repository, "kept") as triton, connect(triton) as client:
        yield client


def test_without_an_ensemble_there_is_one_model_a_pipeline(alone: Path) -> None:
    assert {model.name for model in alone.iterdir()} == CASES.keys() - {"calls"}


def assert_answer(answer: Arrays | str, expected: Any) -> None:
    assert isinstance(answer, dict), answer
    assert answer["X"].tolist() == np.asarray(expected).tolist()


@pytest.mark.parametrize("name", CASES)
def test_the_steps_share_a_model(repository: Path, name: str) -> None:
    manifest = json.loads((repository / SHARED[name] / "1/step.json").read_text())
    for given in manifest["steps"]:
        assert not (repository / given["name"]).exists()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("async", [8, 2, 2, 2]),
        ("parameters", [18, 0, 0, 0]),
        ("onnx", [4, 1, 1, 1]),
        ("calls", [16, 10, 10, 10]),
        ("kept", [8, 2, 2, 2]),
        ("torch", [16, 4, 4, 4]),
    ],
)
def test_they_answer(
    request: pytest.FixtureRequest, client: Client, name: str, expected: list[float]
) -> None:
    if name not in CASES:
        pytest.skip("needs torch")
    if name == "calls" and request.node.callspec.params["client"] == "alone":
        pytest.skip("its steps are two models")
    answer = asked(client, name, {"A": four(3, rows=2)})
    assert_answer(answer, [expected, expected])


def test_optional_inputs_of_later_steps(client: Client) -> None:
    assert_answer(asked(client, "optional", {"A": four(3)}), four(3))
    assert_answer(asked(client, "optional", {"A": four(3), "B": four(2)}), four(10))


def test_an_input_that_is_not_optional_is_missed(
    request: pytest.FixtureRequest, client: Client
) -> None:
    """It is missed also among requests that have it. Where some are optional, Triton itself just counts them."""
    in_ensemble = request.node.callspec.params["client"] == "repository"
    said = "unexpected deadlock" if in_ensemble else "input 'A' is missing"

    def ask(i: int) -> Arrays | str:
        return asked(client, "optional", {"B": four(2)} if i % 4 == 0 else {"A": four(3)})

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(32)))
    for i, answer in enumerate(answers):
        if i % 4:
            assert_answer(answer, four(3))
        else:
            assert isinstance(answer, str)
            assert said in answer


def test_without_a_batch_dimension(client: Client) -> None:
    given = np.arange(5, dtype=np.float32)
    assert_answer(asked(client, "unbatched", {"A": given}), [0, 2, 4, 0, 1, 2, 3, 4])


def test_async_steps_wait_for_many_requests_at_once(client: Client) -> None:
    def ask(i: int) -> Arrays | str:
        return asked(client, "async", {"A": four(i)})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
        start = time.monotonic()
        answers = list(pool.map(ask, range(8)))
        seconds = time.monotonic() - start
    for i, answer in enumerate(answers):
        assert_answer(answer, [[2 * i + 2, 2, 2, 2]])
    assert seconds < 8 * 0.05


@pytest.fixture
def threads_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], int]]:
    """Yield a function of the adapter, which imports a module that only Triton has."""
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", ModuleType("utils"))
    known = {*sys.modules}
    yield importlib.import_module("triton_ensemble.adapter.fused").threads_of
    for name in sys.modules.keys() - known:
        del sys.modules[name]


@pytest.mark.parametrize(("counts", "threads"), [([1], 0), ([2], 1), ([1, 1], 1)])
def test_several_instances_have_a_thread_each_for_onnx(
    threads_of: Callable[[Any], int], counts: list[int], threads: int
) -> None:
    assert threads_of({"instance_group": [{"count": count} for count in counts]}) == threads


@pytest.mark.slow
def test_the_threads_are_those_of_the_config(
    threads_of: Callable[[Any], int], repository: Path
) -> None:
    config = repository / "n1_to_n3/config.pbtxt"
    assert "count: 2" in config.read_text()
    assert threads_of(json.loads(config_json(config))) == 1
