"""A Ray cluster on this machine, each node processes of its own, and a project that Ray Serve serves on it."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import ray
from gateway_service import Answer
from ray import serve
from ray.cluster_utils import Cluster
from support import SOURCES, Generate, Project, step, succeed

from triton_ensemble.deploy.ray import settings
from triton_ensemble.deploy.ray.served import deploy_application
from triton_ensemble.facts.project import Project as Facts
from triton_ensemble.serve.local.ports import free_ports

# What it answers says which replica's Triton answered: PROCESS is that of the step.
CODE = '''\
import os
import time

import numpy as np

from triton_step import Context, InvalidRequest


class Step:
    """Waits as many milliseconds as INPUT says, without a core, and doubles it."""

    def __init__(self, context: Context) -> None:
        pass

    def __call__(self, INPUT):  # type: ignore[no-untyped-def]
        if (INPUT < 0).any():
            raise InvalidRequest("INPUT: is below 0")
        time.sleep(float(INPUT.max()) / 1000)
        return {"OUTPUT": INPUT * 2, "PROCESS": np.full((len(INPUT), 1), os.getpid(), np.int64)}
'''


def waiting(generate: Generate, **answers: Any) -> Project:
    """Return a project of one step that waits as long as it is told, its model repository complete."""
    tensors = {"INPUT": "FP32[1]", "OUTPUT": "FP32[1]", "PROCESS": "INT64[1]"}
    steps = [step("wait", ["INPUT"], ["OUTPUT", "PROCESS"])]
    given = {"project_name": "waiting", "tensors": tensors, "steps": steps, **answers}
    project = generate(**given, extras=["gateway", "ray"])
    (project / "steps/wait.py").write_text(CODE)
    succeed(project.make("repository"))
    return project


# A dead replica is seen sooner than by the file's settings.
QUICK = {"health_check_period_s": 1, "health_check_timeout_s": 10}


class Service:
    """An application on a Ray cluster, and its URL by a port of this machine."""

    def __init__(self, project: Project, cluster: Cluster) -> None:
        self.project, self.cluster = project, cluster
        self.settings = settings.read(Facts.load(project.path))
        [self.port] = free_ports({"ray": 0}).values()

    def deploy(self, replicas: int = 0, **options: Any) -> None:
        """Deploy the application, by other options of its deployment than the file has."""
        [app] = self.settings["applications"]
        [own] = app["deployments"]
        changed = {**app, "deployments": [{**own, **options}]}
        deploy_application({**self.settings, "applications": [changed]}, self.port, replicas)

    def ask(self, *milliseconds: float, path: str = "/predict", timeout: float = 60) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            if milliseconds:
                body = json.dumps({"INPUT": [[value] for value in milliseconds]})
                connection.request("POST", path, body, {"Content-Type": "application/json"})
            else:
                connection.request("GET", path)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def load(self, requests: int, at_once: int, wait_ms: float = 0) -> list[Answer | OSError]:
        """Send requests of one row, so many at once. Each asks for another number near `wait_ms`."""

        def one(number: int) -> Answer | OSError:
            try:
                return self.ask(wait_ms + number / 1000)
            except OSError as error:
                return error

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(one, range(requests)))

    def replicas(self) -> int:
        """Return how many replicas run."""
        [app] = serve.status().applications.values()
        return int(app.deployments["Pipeline"].replica_states.get("RUNNING", 0))


def wrong(answers: list[Answer | OSError], wait_ms: float = 0) -> list[Any]:
    """Return what was answered, and is not what was asked for. Errors are not wrong answers."""
    pairs = [(n, a) for n, a in enumerate(answers) if isinstance(a, Answer) and a.status == 200]
    return [
        (n, found) for n, a in pairs
        if abs((found := a.json()["OUTPUT"][0][0]) - 2 * (wait_ms + n / 1000)) > 1e-3
    ]  # fmt: skip


def statuses(answers: list[Answer | OSError]) -> Counter[Any]:
    """Return how often each status was answered. An answer that did not come counts by its error."""
    return Counter(a.status if isinstance(a, Answer) else type(a).__name__ for a in answers)


def processes(answers: list[Answer | OSError]) -> Counter[int]:
    """Return how often the step's process of each replica answered."""
    right = [a for a in answers if isinstance(a, Answer) and a.status == 200]
    return Counter(a.json()["PROCESS"][0][0] for a in right)


def only_reported(answers: list[Answer | OSError]) -> bool:
    """Return whether all that was not answered failed at once and visibly: by a status, or a closed connection."""
    return statuses(answers).keys() <= {200, 500, 503, "RemoteDisconnected", "ConnectionResetError"}


def eventually(holds: Callable[[], Any], timeout_s: float = 180) -> Any:
    """Return what holds, as soon as it does. Fail after so many seconds."""
    end = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < end
        time.sleep(0.3)
    return found


def parent(process: int) -> int:
    """Return the process that started another one."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def triton_of(step: int) -> int:
    """Return the server that a step's process belongs to."""
    while "tritonserver" not in (command := Path(f"/proc/{step}/cmdline").read_text()):
        assert command
        step = parent(step)
    return step


def is_alive(process: int) -> bool:
    """Return whether a process runs."""
    with suppress(OSError):  # it may end while this reads
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@contextmanager
def cluster(project: Project, *cpus: int, **environment: str) -> Iterator[Service]:
    """Start a Ray cluster in a project's folder, a node with each of these numbers of CPUs, and stop all of it."""
    path = os.pathsep.join(["src", str(SOURCES), os.environ.get("PYTHONPATH", "")])
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "PYTHONPATH": path}
    # A proxy that starts on a busy machine is not ready in the 5 s after which Serve kills it.
    quiet["RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"] = "30"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.path)
        for name, value in {**quiet, "GRPC_ENABLE_FORK_SUPPORT": "0", **environment}.items():
            patch.setenv(name, value)
        nodes = Cluster()
        try:
            for number in cpus:
                nodes.add_node(num_cpus=number)
            ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
            yield Service(project, nodes)
        finally:
            serve.shutdown()
            ray.shutdown()
            nodes.shutdown()


def ray_metrics(node: Mapping[str, Any]) -> str:
    """Return the metrics that Ray has of a node."""
    connection = HTTPConnection("127.0.0.1", node["MetricsExportPort"], timeout=10)
    connection.request("GET", "/metrics")
    return connection.getresponse().read().decode()
