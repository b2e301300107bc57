"""A project's client in a process that was forked, or spawned, after the client was made."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_support import Served, serving
from step_code import step_code
from support import SOURCES, Generate, run, step, succeed

FORK, SPAWN = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")
SAME = step_code("""
def __call__(self, A):
    return {"B": A}
""")
LOST = "gRPC does not survive a fork"


@pytest.fixture(scope="module")
def server(generate: Generate) -> Iterator[Served]:
    project = generate(
        project_name="forked",
        extras=["shared-memory"],
        max_batch_size=4,
        tensors={"A": "FP32[-1]", "B": "FP32[-1]"},
        steps=[step("same", ["A"], ["B"])],
    )
    (project / "steps/same.py").write_text(SAME)
    with serving(project) as served:
        yield served


def start(call: Callable[[], Any]) -> Callable[[], Any]:
    """Start a call in a forked process. Return what waits for its result, or for the text of its error."""
    receiver, sender = FORK.Pipe(duplex=False)

    def send_result() -> None:
        try:
            sender.send(call())
        except Exception as error:
            sender.send(str(error))

    process = FORK.Process(target=send_result)
    process.start()

    def result() -> Any:
        try:
            return receiver.recv() if receiver.poll(10) else "the forked process hangs"
        finally:
            process.kill()
            process.join()

    return result


def count_wrong(client: Any, first: int) -> int:
    """Return how many of 60 answers are not the answer to their own request, or are missing."""
    wrong = 0
    for value in range(first, first + 60):
        row = np.full((1, 8), value, np.float32)
        try:
            wrong += not is_same(client, row)
        except Exception:
            wrong += 1
    return wrong


def is_same(client: Any, rows: Any) -> bool:
    return np.array_equal(client.infer({"A": rows})["B"], rows)


def open_connections(client: Any, count: int) -> None:
    """Open so many idle connections."""
    together = threading.Barrier(count)

    def ask(number: int) -> bool:
        together.wait()
        return is_same(client, np.full((1, 1000), number, np.float32))

    with ThreadPoolExecutor(count) as pool:
        assert all(pool.map(ask, range(count)))


@pytest.mark.parametrize("shared_memory", [False, True])
def test_forked_processes_share_neither_connections_nor_memory(
    server: Served, shared_memory: bool
) -> None:
    with server.module.Client(server.urls["http"], shared_memory=shared_memory) as client:
        open_connections(client, 32)
        results = [start(partial(count_wrong, client, n * 1000)) for n in range(1, 5)]
        assert [count_wrong(client, 0), *(result() for result in results)] == [0] * 5


def test_a_process_forked_under_the_calls_of_other_threads(server: Served) -> None:
    """A call of many rows needs threads, which a forked process has not."""
    rows = np.arange(400, dtype=np.float32).reshape(40, 10)
    done = threading.Event()

    def ask(number: int) -> int:
        wrong = 0
        while not done.is_set():
            wrong += count_wrong(client, number * 1000)
        return wrong

    with server.module.Client(server.urls["http"]) as client, ThreadPoolExecutor(4) as pool:
        assert is_same(client, rows)
        wrongs = [pool.submit(ask, number) for number in range(4)]
        results = [start(lambda: is_same(client, rows)) for _ in range(4)]
        try:
            assert [result() for result in results] == [True] * 4
        finally:
            done.set()
        assert [wrong.result() for wrong in wrongs] == [0] * 4


def test_a_forked_process_closes_only_what_is_its_own(server: Served) -> None:
    rows = np.zeros((1, 40_000), np.float32)
    with server.module.Client(server.urls["http"], shared_memory=True) as client:
        assert is_same(client, rows)
        regions = set(
            re.findall(r"/dev/shm/client-\w+$", Path("/proc/self/maps").read_text(), re.M)
        )
        assert regions

        def ask_and_close() -> bool:
            with client:
                return is_same(client, rows)

        assert start(ask_and_close)() is True
        assert all(Path(region).exists() for region in regions)
        assert is_same(client, rows)


def test_grpc_is_refused_in_a_process_that_was_forked_while_it_was_in_use(server: Served) -> None:
    url, row = server.urls["grpc"], np.zeros((1, 8), np.float32)

    async def ask_by_asyncio() -> None:
        async with server.module.AsyncClient(url) as other:
            await other.infer({"A": row})

    with server.module.Client(url) as client:
        assert is_same(client, row)
        for call in (
            lambda: is_same(client, row),
            lambda: is_same(server.module.Client(url), row),
            lambda: asyncio.run(ask_by_asyncio()),
        ):
            assert start(call)().startswith(LOST)
        assert start(lambda: is_same(server.module.Client(server.urls["http"]), row))() is True
        assert start(client.close)() is None
        assert is_same(client, row)


SCRIPT = """
import asyncio, os, signal, sys, time

import numpy as np
from forked import AsyncClient, Client

row = np.zeros((1, 8), np.float32)

async def ask():
    async with AsyncClient(sys.argv[1]) as client:
        await client.infer({"A": row})
    return client

client = Client(sys.argv[1])
with Client(sys.argv[1]) as closed:
    closed.infer({"A": row})
also_closed = asyncio.run(ask())
time.sleep(1)  # gRPC ends its threads in the background
if child := os.fork():
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(20)  # if it hangs
    client.infer({"A": row})
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
client.infer({"A": row})
asyncio.run(ask())
"""


def test_grpc_that_was_closed_or_not_used_before_a_fork(server: Served) -> None:
    """It runs in a process of its own: other tests may have gRPC connections in this one."""
    path = f"{server.project / 'src'}:{SOURCES}"
    command = (sys.executable, "-c", SCRIPT, server.urls["grpc"])
    succeed(run(*command, cwd=server.project.path, PYTHONPATH=path))


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_spawned_process_has_the_same_client(server: Served, protocol: str) -> None:
    row = np.zeros((1, 8), np.float32)
    with server.module.Client(server.urls[protocol], shared_memory=True) as client:
        assert is_same(client, row)
        process = SPAWN.Process(target=client.infer, args=({"A": row},))
        process.start()
        process.join(20)
        assert process.exitcode == 0
        assert is_same(client, row)


@pytest.mark.parametrize("name", ["Client", "AsyncClient"])
def test_a_pickled_client_keeps_its_options(server: Served, name: str) -> None:
    tls = server.module.Tls()
    client = getattr(server.module, name)(
        "grpcs://host:1", timeout=5, retries=1, in_flight=2, headers={"k": "v"}, tls=tls
    )
    assert pickle.loads(pickle.dumps(client)).__reduce__()[0].keywords == {
        "timeout": 5,
        "retries": 1,
        "in_flight": 2,
        "shared_memory": False,
        "headers": {"k": "v"},
        "tls": tls,
        "record": None,
    }
