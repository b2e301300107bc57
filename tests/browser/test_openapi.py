"""Let Schemathesis ask what openapi.json of the gateway allows, and what it does not."""

from __future__ import annotations

import os
from pathlib import Path

from gateway_service import Service, gateway
from support import UNUSUAL, VENV, Generate, run, serve, step, succeed

# A model may refuse what its types allow, and a row that has just one value may be that value.
OTHERWISE = "--exclude-checks=positive_data_acceptance,negative_data_rejection"
COMMAND = (str(VENV / "bin/schemathesis"), "run", "--continue-on-failure", OTHERWISE)
SAME_EACH_TIME = ["--generation-deterministic"] * ("CI" in os.environ)
TYPES = ["FP32[2]", "FP64[1]", "FP16[-1]", "INT64[-1]", "INT8[3]", "UINT64[1]", "UINT8[2, 3]"]
TYPES += ["BOOL[1]", "STRING[1]", "STRING[-1]"]


def assert_it_is_so(service: Service, folder: Path, *options: str) -> None:
    url = f"http://127.0.0.1:{service.port}/openapi.json"
    succeed(run(*COMMAND, *SAME_EACH_TIME, *options, url, cwd=folder))


def test_of_files(service: Service, tmp_path: Path) -> None:
    assert_it_is_so(service, tmp_path)


def test_of_each_type(generate: Generate, tmp_path: Path) -> None:
    inputs = {f"I{i}": kind for i, kind in enumerate(TYPES)}
    option = {"type": "FP32", "dims": [1], "optional": True}
    tensors = {**inputs, "OPTION": option, "O": "FP32[2]", "TEXT": "STRING[1]"}
    steps = [step("all", [*inputs, "OPTION"], ["O", "TEXT"])]
    project = generate.complete(
        project_name="types", tensors=tensors, steps=steps, extras=["gateway"]
    )
    with serve(project) as server, gateway(project, server.urls["grpc"]) as service:
        assert_it_is_so(service, tmp_path)


def test_of_a_stream_with_keys(generate: Generate, tmp_path: Path) -> None:
    project = generate.complete(**UNUSUAL["decoupled"], extras=["gateway"])
    with (
        serve(project) as server,
        gateway(project, server.urls["grpc"], GATEWAY_API_KEYS="secret") as service,
    ):
        assert_it_is_so(service, tmp_path, "--header=X-API-Key: secret")


def test_of_openais_routes(generate: Generate, tmp_path: Path) -> None:
    optional = {"type": "STRING", "dims": [1], "optional": True}
    outputs = {"VECTOR": "FP32[3]", "SCORE": "FP32[1]"}
    tensors = {"TEXT": "STRING[1]", "QUERY": optional, **outputs}
    routes = {
        "embeddings": {"input": "TEXT", "output": "VECTOR"},
        "rerank": {"query": "QUERY", "document": "TEXT", "score": "SCORE"},
        "classify": {"input": "TEXT", "probabilities": "VECTOR"},
    }
    project = generate.complete(
        project_name="texts",
        tensors=tensors,
        steps=[step("all", ["TEXT", "QUERY"], [*outputs])],
        openai=routes,
        extras=["gateway"],
    )
    with (
        serve(project) as server,
        gateway(project, server.urls["http"], GATEWAY_API_KEYS="secret") as service,
    ):
        assert_it_is_so(service, tmp_path, "--header=X-API-Key: secret")
