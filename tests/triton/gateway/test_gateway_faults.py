"""The fate of requests that are under way while something changes: more load than places, keys, a Triton that ends."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Event
from typing import Any

import pytest
from gateway_service import (
    Answer,
    Service,
    gateway,
    launch,
    metric,
    started,
    stream,
    wait_for,
    wait_until,
)
from support import Generate, Project, Server, free_port, serve, step, succeed

from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.log import FULL

# Each instance is a process.
STEP = """
import os
import time
from pathlib import Path

import numpy as np

COMPUTING = Path({folder!r})


class Step:
    def __init__(self, context):
        pass

    def __call__(self, SECONDS):
        mine = COMPUTING / str(os.getpid())
        mine.touch()
        time.sleep(float(SECONDS.max()) / 2)
        together = len(list(COMPUTING.iterdir()))
        time.sleep(float(SECONDS.max()) / 2)
        mine.unlink()
        return {{"TOGETHER": np.full(SECONDS.shape, together, np.float32)}}
"""


@pytest.fixture(scope="module")
def project(generate: Generate, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a pipeline that takes as many seconds as its input says, and answers how many requests it computes then."""
    wait = step("wait", ["SECONDS"], ["TOGETHER"], batching=False, instances=4)
    tensors = dict.fromkeys(["SECONDS", "TOGETHER"], "FP32[1]")
    project = generate(project_name="slow", tensors=tensors, steps=[wait], extras=["gateway"])
    folder = tmp_path_factory.mktemp("computing")
    (project / "steps/wait.py").write_text(STEP.format(folder=str(folder)))
    succeed(project.make("repository"))
    return project


@pytest.fixture(scope="module")
def server(project: Project) -> Iterator[Server]:
    with serve(project) as server:
        yield server


PLACES = {"GATEWAY_BATCH": "0", "GATEWAY_CONCURRENCY": "2", "GATEWAY_WAITING": "3"}


@pytest.fixture(scope="module")
def few_places(server: Server) -> Iterator[Service]:
    """Run a gateway that has two places, and lets three wait."""
    with gateway(server.project, server.urls["http"], **PLACES, GATEWAY_WAIT_S="20") as service:
        yield service


def ask(service: Service, seconds: float, **headers: str) -> Answer:
    return service.post({"SECONDS": [[seconds]]}, **headers)


def together(answers: list[Answer]) -> float:
    """Return how many of the requests that were answered were computed at once."""
    return max(float(answer.json()["TOGETHER"][0][0]) for answer in answers if answer.status == 200)


def refused(service: Service) -> float:
    return metric(service, "gateway_requests_total", route="/predict", status="429")


@pytest.mark.slow
def test_no_more_than_the_places_are_computed_and_others_are_told_so(few_places: Service) -> None:
    before = refused(few_places)
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: ask(few_places, 1), range(12)))
    assert Counter(answer.status for answer in answers) == {200: 5, 429: 7}
    assert {a.headers["Retry-After"] for a in answers if a.status == 429} == {"1"}
    assert together(answers) == 2
    assert refused(few_places) - before == 7


@pytest.mark.slow
def test_what_has_no_place_is_refused_before_it_is_read(few_places: Service) -> None:
    head = b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
    with ThreadPoolExecutor(5) as pool:
        computed = [pool.submit(ask, few_places, 1) for _ in range(5)]
        wait_for(few_places, "gateway_waiting", 3)
        with socket.create_connection(("127.0.0.1", few_places.port), timeout=5) as connection:
            connection.sendall(head)
            assert connection.recv(12) == b"HTTP/1.1 429"
    assert {answer.result().status for answer in computed} == {200}


@pytest.mark.slow
def test_the_triton_beside_it_leaves_it_the_cores_to_refuse(project: Project) -> None:
    with launch(project, subprocess.PIPE, "--port=0", TRITON_URL="") as process:
        assert process.stdout
        while b"Ctrl-C stops it" not in process.stdout.readline():
            assert process.poll() is None
        of_children = ["ps", "-o", "ni=,comm=", "--ppid", str(process.pid)]
        priorities = subprocess.run(of_children, capture_output=True, text=True, check=True).stdout
        process.send_signal(signal.SIGINT)
    assert re.search(r"^ *19 tritonserver$", priorities, re.MULTILINE), priorities


@pytest.mark.slow
def test_who_leaves_takes_no_place_along(few_places: Service) -> None:
    """Whenever it is: while the request comes, waits or is computed."""

    def leave(after_s: float) -> None:
        connection = few_places.connect()
        connection.request("POST", "/predict", b'{"SECONDS": [[0.1]]}')
        time.sleep(after_s)
        connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(leave, [i / 1000 for i in range(200)]))
        wait_for(few_places, "gateway_waiting", 0)
        wait_for(few_places, "gateway_computing", 0)
        answers = list(pool.map(lambda _: ask(few_places, 0.5), range(5)))
    assert {answer.status for answer in answers} == {200}
    assert together(answers) == 2


class Load:
    """Clients that ask, each again when it is answered. `seen` has the statuses, `longest_s` how long one waited."""

    def __init__(self, service: Service, **headers: str) -> None:
        self.seen: Counter[int] = Counter()
        self.longest_s = 0.0
        self._ends = Event()
        self._service, self._headers = service, headers

    def ask(self) -> None:
        """Be a client until it ends."""
        while not self._ends.is_set():
            began = time.monotonic()
            self.seen[ask(self._service, 0.01, **self._headers).status] += 1
            self.longest_s = max(self.longest_s, time.monotonic() - began)

    def end(self) -> None:
        self._ends.set()

    def wait_for(self, status: int) -> None:
        """Wait until so many more have this status that all that were under way are answered."""
        until, end = self.seen[status] + 10, time.monotonic() + 60
        while self.seen[status] < until:
            assert time.monotonic() < end, self.seen
            time.sleep(0.01)


@contextmanager
def load(service: Service, **headers: str) -> Iterator[Load]:
    """Ask a gateway by four clients."""
    load = Load(service, **headers)
    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(load.ask) for _ in range(4)]
        try:
            yield load
        finally:
            load.end()
    for client in asking:
        client.result()


@pytest.mark.slow
def test_keys_that_change_lose_no_request(server: Server, tmp_path: Path) -> None:
    """By the documented command, and by another file in its place: the new one holds at once, the old one no more."""
    file, new = tmp_path / "keys", tmp_path / "new"
    file.write_text("stays\nkey-0\n")
    url = server.urls["http"]
    with gateway(server.project, url, GATEWAY_API_KEYS_FILE=str(file)) as service:
        with load(service, X_API_Key="stays") as asked:
            for count in range(1, 31):
                new.write_text(f"stays\nkey-{count}\n")
                rotate = "mv new keys" if count % 3 == 0 else "cat new > keys"
                subprocess.run(rotate, shell=True, check=True, cwd=tmp_path)
                assert ask(service, 0, X_API_Key=f"key-{count}").status == 200
                assert ask(service, 0, X_API_Key=f"key-{count - 1}").status == 401
            asked.wait_for(200)
        assert asked.seen.keys() == {200}
        file.write_text("")
        time.sleep(1.1)  # until then it may be one that is being written
        assert ask(service, 0, X_API_Key="stays").status == 401


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_triton_that_hangs_is_killed_and_comes_back(project: Project, protocol: str) -> None:
    """Each request is answered in time, and the gateway is the same all the while."""
    port = free_port()
    ports: dict[str, Any] = {f"{protocol}_port": port}
    repository, ensemble = project / "model_repository", "slow"
    with (
        gateway(project, f"{protocol}://127.0.0.1:{port}", GATEWAY_TIMEOUT_S="1") as service,
        load(service) as asked,
    ):
        asked.wait_for(503)
        for _ in range(2):
            with LocalTriton(repository, ensemble, **ports) as triton:
                asked.wait_for(200)
                os.kill(triton.pid, signal.SIGSTOP)
                asked.wait_for(504)
                os.kill(triton.pid, signal.SIGCONT)
                asked.wait_for(200)
                os.kill(triton.pid, signal.SIGKILL)
                asked.wait_for(503)
    assert asked.seen.keys() == {200, 503, 504}
    assert asked.longest_s < 3


BROKEN = """

@router.get("/broken")
async def broken() -> None:
    raise RuntimeError("secret")
"""


@pytest.mark.slow
def test_a_route_that_fails_is_counted_and_has_its_id(server: Server) -> None:
    """This holds for a route of the owner's too. The log alone says why."""
    routes = server.project / "gateway/routes.py"
    routes.write_text(routes.read_text() + BROKEN)
    with gateway(server.project, server.urls["grpc"]) as service:
        answer = service.ask("GET", "/broken", X_Request_ID="mine")
        assert (answer.status, answer.json()["id"]) == (500, "mine")
        assert answer.headers["X-Request-ID"] == "mine"
        assert b"secret" not in answer.content
        assert metric(service, "gateway_requests_total", route="/broken", status="500") == 1


WORDS = """
import numpy as np


class Step:
    def __init__(self, context):
        pass

    def __call__(self, COUNT):
        for _ in range(int(COUNT[0])):
            yield {"WORD": np.array(["a" * 1_000_000], object)}
"""


@pytest.mark.slow
def test_who_reads_no_more_keeps_no_place(generate: Generate) -> None:
    """Of a stream, whose answers are sent while it has one."""
    project = stream(generate, WORDS)
    limits = {"GATEWAY_CONCURRENCY": "1", "GATEWAY_TIMEOUT_S": "1"}
    with serve(project) as server, gateway(project, server.urls["grpc"], **limits) as service:
        connection = service.connect()
        connection.request("POST", "/predict", b'{"COUNT": [100]}')
        wait_for(service, "gateway_computing", 1)
        wait_for(service, "gateway_computing", 0)
        assert service.post({"COUNT": [1]}).status == 200
        connection.close()


@pytest.mark.slow
def test_who_leaves_before_the_first_event_keeps_no_place(generate: Generate) -> None:
    project = stream(
        generate, WORDS.replace("for _", "time.sleep(40 * int(COUNT[0] > 1))\n        for _")
    )
    code = (project / "steps/words.py").read_text()
    (project / "steps/words.py").write_text(f"import time\n{code}")
    succeed(project.make("repository"))
    limits = {"GATEWAY_CONCURRENCY": "1", "GATEWAY_WAITING": "0", "GATEWAY_TIMEOUT_S": "60"}
    with serve(project) as server, gateway(project, server.urls["grpc"], **limits) as service:
        connection = service.connect()
        connection.request("POST", "/predict", b'{"COUNT": [2]}')
        wait_for(service, "gateway_computing", 1)
        connection.close()
        wait_for(service, "gateway_computing", 0)


def children(process: subprocess.Popen[Any], name: str) -> list[int]:
    """Return the processes that a process has started, by a part of their command."""
    command = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.pid)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in lines.splitlines() if name in line]


@pytest.mark.slow
def test_idle_connections_leave_files_for_triton(server: Server) -> None:
    """The soft limit is raised to the hard one, which is too small for all that connect."""
    with NamedTemporaryFile() as log:
        port = free_port()
        given = {"TRITON_URL": server.urls["http"]}
        process = launch(server.project, log, f"--port={port}", "--workers=1", **given)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (100, 230))
        service = Service(port, process, Path(log.name))
        with process, ExitStack() as stack:
            stack.callback(process.kill)
            wait_until(service.is_alive)
            first = stack.enter_context(closing(service.connect()))
            first.connect()
            for _ in range(250):
                stack.enter_context(closing(service.connect())).connect()
            first.request("POST", "/predict", b'{"SECONDS": [[0]]}')
            assert first.getresponse().status == 200
            assert service.ask("GET", "/healthz").status == 503
        assert "ulimit -n is 230, and GATEWAY_CONCURRENCY=32 needs" in service.log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--workers=2",)])
def test_a_triton_beside_it_that_ends_ends_the_gateway(
    project: Project, options: tuple[str, ...]
) -> None:
    with started(project, "--port=0", *options, TRITON_URL="") as process:
        assert process.stdout
        while b"Ctrl-C stops it" not in process.stdout.readline():
            assert process.poll() is None
        [triton] = children(process, "tritonserver")
        os.kill(triton, signal.SIGKILL)
        said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 1
    assert re.fullmatch(r"Triton ended with exit code -?\d+\nlog: \S+\n", said), said


@pytest.mark.slow
def test_a_worker_that_ends_while_routes_are_broken_ends_no_other(project: Project) -> None:
    routes = project / "gateway/routes.py"
    good = routes.read_text()
    with gateway(project, "http://127.0.0.1:1", "--workers=2") as service:
        # Both workers have loaded: each says this once.
        wait_until(lambda: service.log.read_text().count("everybody may ask") == 2)
        first, second = children(service.process, "spawn_main")
        try:
            routes.write_text("def f(:\n")
            os.kill(first, signal.SIGKILL)
            wait_until(lambda: "gateway/routes.py:1: SyntaxError" in service.log.read_text())
            time.sleep(3)  # meanwhile the failed worker ends
            assert service.is_alive()
        finally:
            routes.write_text(good)
        wait_until(lambda: len(children(service.process, "spawn_main")) == 2)
        os.kill(second, signal.SIGKILL)
        wait_until(service.is_alive)
        assert service.process.poll() is None


def small(size: str) -> tuple[str, ...]:
    """Return what begins a command that sees a /dev/shm of this size, and the working directory at /mnt."""
    mount = f"mount --bind . /mnt && mount -t tmpfs -o size={size} none /dev/shm"
    return ("unshare", "--mount", "sh", "-c", f'{mount} && cd /mnt && exec "$@"', "sh")


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
def test_a_full_memory_disk_at_the_start_is_a_line(project: Project) -> None:
    command = [*small("4k"), sys.executable, "-m", "triton_ensemble", "gateway", "--port=0"]
    process = project.run(*command, TMPDIR="/tmp")
    assert process.returncode == 1
    _, *reasons, log = process.stderr.splitlines()
    text = f"failed to load 'wait' version 1: Unable to initialize shared memory{FULL}"
    assert [reason.strip() for reason in reasons] == [text]
    assert log.startswith("log: ")


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
def test_a_full_memory_disk_ends_no_worker(project: Project) -> None:
    with gateway(project, "http://127.0.0.1:1", "--workers=2", within=small("4m")) as service:
        wait_until(lambda: service.log.read_text().count("everybody may ask") == 2)
        with (
            suppress(OSError),
            Path(f"/proc/{service.process.pid}/root/dev/shm/fill").open("wb", 0) as file,
        ):
            while True:
                file.write(bytes(4096))
        for path in ("/docs", "/readyz", "/none") * 10:
            service.ask("GET", path)
        os.kill(children(service.process, "spawn_main")[0], signal.SIGKILL)
        wait_until(lambda: service.log.read_text().count("everybody may ask") == 3)
        for path in ("/docs", "/readyz", "/none") * 10:
            service.ask("GET", path)
        assert service.ask("GET", "/metrics").status == 200
        said = service.log.read_text()
    assert re.findall("worker .*|.*No space.*", said) == [
        f"worker {re.findall('worker ([0-9]+)', said)[0]} ended by SIGKILL; another is started",
        "/dev/shm has no room for the counters of a worker (No space left on device): /metrics lacks them",
    ]
