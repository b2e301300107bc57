"""What is measured of each peer: a load, single answers, and the processes that serve."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.request import Request as UrlRequest
from urllib.request import urlopen

from benchmarks.peers.environments import PeerError
from benchmarks.peers.works import Answer, Work, plain
from benchmarks.processes import started
from benchmarks.wrk import Rate, Request, Wrk

READY_S = 120.0
Ask = Callable[[int], Answer]  # by the row's number
Forms = Callable[[Work, bytes], Request]  # a row as a peer takes it
# Reads an answer. The number is of the bytes of JSON before others.
Reads = Callable[[Work, bytes, int], dict[str, Any]]


class Load(Protocol):
    """Asks again as soon as it is answered, at so many places."""

    def rate(self, concurrency: int, seconds: int) -> Rate: ...


class Served(NamedTuple):
    """`pids` are those whose families serve."""

    load: Load
    ask: Ask
    pids: list[int]


def over_http(url: str, work: Work, forms: Forms, reads: Reads) -> tuple[Wrk, Ask]:
    """Return the load and the asking of a server that runs."""
    requests = [forms(work, row) for row in work.rows]
    return Wrk(url, *requests), partial(_asked, url, work, requests, reads)


def _asked(url: str, work: Work, requests: Sequence[Request], reads: Reads, row: int) -> Answer:
    path, body, headers = requests[row]
    with urlopen(UrlRequest(url + path, body, dict(headers)), timeout=30) as response:
        length = int(response.headers.get("Inference-Header-Content-Length", 0))
        return plain(reads(work, response.read(), length))


def wait(ask: Ask, process: subprocess.Popen[str], log: Path) -> None:
    """Wait for the first answer of a server; PeerError with the log's last line where there is none."""
    end = time.monotonic() + READY_S
    while True:
        try:
            ask(0)
        except OSError as error:  # no connection, or a status of who is not ready
            if process.poll() is not None or time.monotonic() > end:
                lines = [
                    line for line in log.read_text(errors="replace").splitlines() if len(line) > 9
                ]
                raise PeerError(f"no answer ({error}): {lines[-1:]}"[:300]) from error
            time.sleep(0.05)
        else:
            return


class Program:
    """A process that asks by itself, on orders from here: a line of JSON each way (driver.py)."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log

    def _order(self, **order: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(order), file=self._process.stdin, flush=True)
        if line := self._process.stdout.readline():
            return json.loads(line)
        raise PeerError(f"no answer: {self._log.read_text().strip().splitlines()[-1][:200]}")

    def ask(self, row: int) -> Answer:
        return plain(self._order(row=row))

    def rate(self, concurrency: int, seconds: int) -> Rate:
        return Rate(*self._order(concurrency=concurrency, seconds=seconds))


@contextmanager
def program(command: Sequence[str], log: Path, **options: Any) -> Iterator[Served]:
    """Run a Program, which is ready when it has answered."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with started(command, log, **pipes, **options) as process:
        served = Program(process, log)
        served.ask(0)
        yield Served(served, served.ask, [process.pid])
