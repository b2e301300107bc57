"""Outputs that a step may leave out, on a real Triton: of the pipeline, and between its steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from client_support import Served, serving
from gateway_service import gateway
from step_code import step_code
from support import Generate, slow_but, step, succeed

SPLIT = step_code(
    """
def __call__(self, A):
    return {"X": A, "M": A * np.float32(10) if A.min() >= 0 else None}
""",
    "import numpy as np",
)
ADD = step_code(
    """
def __call__(self, X, M):
    outputs = {"Z": X + (np.float32(0.5) if M is None else M)}
    return outputs | ({} if X.max() % 2 else {"NOTE": X})
""",
    "import numpy as np",
)
STREAM = step_code(
    """
def __call__(self, A):
    for i in range(4):
        yield {"Z": A + np.float32(i), "NOTE": A if i % 2 else None}
""",
    "import numpy as np",
)
MAYBE = {"type": "FP32", "dims": [1], "optional": True}
TENSORS = {"A": "FP32[1]", "X": "FP32[1]", "M": MAYBE, "Z": "FP32[1]", "NOTE": MAYBE}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "apart": ({"fuse": False}, {}),
    "fused": ({"fuse": True}, {}),
    "one model": ({}, {"ensemble": False}),
}


def wanted(value: float, rows: int) -> dict[str, list[list[float]]]:
    """Return what a request of equal rows is answered, as JSON has it."""
    answer = {"Z": value + 10 * value if value >= 0 else value + 0.5}
    given = answer | ({} if value % 2 else {"NOTE": value})
    return {name: [[one]] * rows for name, one in given.items()}


@pytest.fixture(scope="module", params=slow_but("fused", names=KINDS))
def server(generate: Generate, request: pytest.FixtureRequest) -> Iterator[Served]:
    fields, answers = KINDS[request.param]
    steps = [
        step("split", ["A"], ["X", "M"], **fields),
        step("add", ["X", "M"], ["Z", "NOTE"], **fields),
    ]
    project = generate(
        project_name="notes", tensors=TENSORS, steps=steps, extras=["gateway"], **answers
    )
    (project / "steps/split.py").write_text(SPLIT)
    (project / "steps/add.py").write_text(ADD)
    with serving(project) as server:
        yield server


def shown(answer: Any) -> dict[str, list[list[float]]]:
    return {name: array.tolist() for name, array in answer.items()}


@pytest.mark.parametrize("transport", ["http", "grpc", "asyncio"])
@pytest.mark.parametrize("value", [4, 5, -4, -5])
def test_an_output_is_missing_if_the_step_leaves_it_out(
    server: Served, transport: str, value: float
) -> None:
    inputs = {"A": np.full((2, 1), value, np.float32)}
    assert shown(server.call(transport, "infer", inputs)) == wanted(value, 2)
    named = shown(server.call(transport, "infer", inputs, outputs=["NOTE"]))
    assert named == {k: v for k, v in wanted(value, 2).items() if k == "NOTE"}
    assert (server.call(transport, "notes", A=inputs["A"]).NOTE is None) == bool(value % 2)


def test_no_caller_gets_an_output_that_another_one_has(server: Served) -> None:
    expect_own_answers(server)


def test_no_caller_of_the_gateway_gets_what_a_step_leaves_out_for_another(
    generate: Generate,
) -> None:
    """Here the last step answers all requests, and the one before it leaves out what this step reads."""
    steps = [
        step("split", ["A"], ["X", "M"], fuse=False),
        step("add", ["X", "M"], ["Z"], fuse=False),
    ]
    tensors = {name: TENSORS[name] for name in "AXMZ"}
    project = generate(project_name="inside", tensors=tensors, steps=steps, extras=["gateway"])
    (project / "steps/split.py").write_text(SPLIT)
    (project / "steps/add.py").write_text(ADD.replace("return outputs |", "return outputs or"))
    with serving(project) as server:
        expect_own_answers(server)


def expect_own_answers(server: Served) -> None:
    """Fail unless callers at once, half of whom a step leaves something out for, get their own answers."""
    outputs = server.module.tensors.OUTPUTS
    with gateway(server.project, server.triton.http_url) as service:

        def ask(caller: int) -> list[tuple[Any, Any]]:
            pairs = []
            with server.module.Client(server.triton.grpc_url) as client:
                for i in range(40):
                    value, rows = (caller + i) * (-1) ** i, 1 + i % 3
                    given = {"A": np.full((rows, 1), value, np.float32)}
                    want = {n: v for n, v in wanted(value, rows).items() if n in outputs}
                    answer = service.post({"A": given["A"].tolist()}).json()
                    pairs += [(shown(client.infer(given)), want), (answer, want)]
            return pairs

        with ThreadPoolExecutor(8) as pool:
            for pairs in pool.map(ask, range(8)):
                assert [pair for pair in pairs if pair[0] != pair[1]] == []


def test_the_gateway_has_null_for_rows_without_it(server: Served) -> None:
    """Rows of several requests may differ. The client, whose arrays have no null, says so."""
    values = [4.0] * 8 + [5.0]
    with gateway(server.project, server.triton.http_url) as service:
        assert service.post({"A": values}).json()["NOTE"] == [[4]] * 8 + [None]
        schema = service.ask("GET", "/openapi.json").json()["paths"]["/predict"]["post"]
    answer = schema["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer["required"] == ["Z"]
    with pytest.raises(server.module.InferenceError, match="or different outputs"):
        server.call("http", "infer", {"A": np.array(values, np.float32)})


@pytest.mark.slow
def test_the_generated_tests_pass_and_another_output_is_still_needed(server: Served) -> None:
    succeed(server.project.make("test", TRITON_URL=server.triton.http_url))
    succeed(server.project.make("lint"))
    add = server.project / "steps/add.py"
    add.write_text(ADD.replace('"Z": X', '"NOTE": X'))
    process = server.project.make("step", "NAME=add")
    assert process.returncode
    assert "returned no Z" in process.stderr
    add.write_text(ADD)


def test_a_stream_leaves_it_out_of_some_answers(generate: Generate) -> None:
    steps = [step("count", ["A"], ["Z", "NOTE"], decoupled=True)]
    tensors = {name: TENSORS[name] for name in ("A", "Z", "NOTE")}
    project = generate(project_name="noted", tensors=tensors, steps=steps, extras=["gateway"])
    (project / "steps/count.py").write_text(STREAM)
    answers = [{"Z": [[7 + i]]} | ({"NOTE": [[7]]} if i % 2 else {}) for i in range(4)]
    with serving(project) as server:
        for transport in ("grpc", "asyncio"):
            found = server.call(transport, "stream", {"A": np.full((1, 1), 7, np.float32)})
            assert [shown(answer) for answer in found] == answers
        with gateway(project, server.triton.grpc_url) as service:
            lines = service.post({"A": [7]}).content.decode().split("\n\n")
    assert [json.loads(line.removeprefix("data: ")) for line in lines if line] == answers
