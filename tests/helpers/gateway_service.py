"""The gateway of a generated project as tests run it: before a real Triton, on a free port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from support import SOURCES, Generate, Project, free_port, step, succeed, variables

BOUNDARY = "a boundary of parts"


class Answer:
    """A response, its content read."""

    def __init__(self, response: HTTPResponse) -> None:
        self.status, self.headers, self.content = response.status, response.headers, response.read()

    def json(self) -> Any:
        return json.loads(self.content)


class Service:
    """A gateway that runs, its process and its log."""

    def __init__(
        self, port: int, process: subprocess.Popen[Any], log: Path = Path(os.devnull)
    ) -> None:
        self.port, self.process, self.log = port, process, log

    def connect(self, timeout: float = 60) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def is_alive(self) -> bool:
        try:
            return self.ask("GET", "/healthz").status == 200
        except OSError:
            return False

    def refuses(self) -> bool:
        """Return whether connections are refused: one that comes as a worker ends its part of the port is reset."""
        try:
            self.ask("GET", "/healthz")
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
        return False

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = self.connect()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, names)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def post(self, content: Any, to: str = "/predict", **headers: str) -> Answer:
        """Send JSON, or bytes in its place."""
        body = content if isinstance(content, bytes) else json.dumps(content)
        return self.ask("POST", to, body, **{"Content_Type": "application/json"} | headers)

    def upload(
        self, *parts: tuple[str, str, bytes], to: str = "/predict", **headers: str
    ) -> Answer:
        """Send a form's files, each by the input's name, its own and its content."""
        kind = f'multipart/form-data; boundary="{BOUNDARY}"'
        return self.ask("POST", to, form(*parts), Content_Type=kind, **headers)


def form(*parts: tuple[str, str, bytes]) -> bytes:
    """Return the body of a form. A part without a file's name is a field."""
    lines = []
    for name, filename, content in parts:
        file = f'; filename="{filename}"' if filename else ""
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
        lines.append(head.encode() + content + b"\r\n")
    return b"".join(lines) + f"--{BOUNDARY}--\r\n".encode()


def stream(generate: Generate, words: str) -> Project:
    """Return a decoupled pipeline of the step `words`, COUNT INT32[1] -> WORD STRING[1], with this code."""
    tensors = {"COUNT": "INT32[1]", "WORD": "STRING[1]"}
    steps = [step("words", ["COUNT"], ["WORD"], decoupled=True)]
    project = generate(
        project_name="stream", tensors=tensors, steps=steps, max_batch_size=0, extras=["gateway"]
    )
    (project / "steps/words.py").write_text(words)
    succeed(project.make("repository"))
    return project


def launch(
    project: Project, output: Any, *options: str, within: Sequence[str] = (), **environment: str
) -> subprocess.Popen[Any]:
    """Start `triton-ensemble gateway` in a session of its own, by the command `within`, and do not wait for it."""
    return subprocess.Popen(
        [*within, sys.executable, "-m", "triton_ensemble", "gateway", *options],
        cwd=project.path,
        env=variables(PYTHONPATH=f"src:{SOURCES}", **environment),
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


@contextmanager
def started(
    project: Project, *options: str, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `triton-ensemble gateway`, and kill it."""
    with launch(project, subprocess.PIPE, *options, **environment) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def gateway(
    project: Project, url: str, *options: str, within: Sequence[str] = (), **environment: str
) -> Iterator[Service]:
    """Run `triton-ensemble gateway` for the Triton at `url`, until Ctrl-C."""
    port = free_port()
    options = (f"--port={port}", *options)
    with (
        NamedTemporaryFile() as log,  # a pipe that nobody reads would be full at some time
        launch(project, log, *options, within=within, TRITON_URL=url, **environment) as process,
    ):
        service = Service(port, process, Path(log.name))
        try:
            wait_until(lambda: _is_up(service), within_s=60)
            yield service
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            process.wait(60)


def _is_up(service: Service) -> bool:
    assert service.process.poll() is None, service.log.read_text()
    return service.is_alive()


def metric(service: Service, name: str, **labels: str) -> float:
    """Return the sum of a metric's values with these labels."""
    lines = service.ask("GET", "/metrics").content.decode().splitlines()
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    found = [line for line in lines if line.startswith(name) and all(w in line for w in wanted)]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def wait_until(condition: Callable[[], bool], within_s: float = 30) -> None:
    """Wait until something is so, which it is not if a connection fails."""
    end = time.monotonic() + within_s
    while True:
        with suppress(OSError):
            if condition():
                return
        assert time.monotonic() < end
        time.sleep(0.05)


def wait_for(service: Service, name: str, value: float, **labels: str) -> None:
    """Wait until a metric has a value."""
    wait_until(lambda: metric(service, name, **labels) == value)
