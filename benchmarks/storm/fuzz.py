"""Random requests to one of Triton's own ports, one after the other, until the time is over.

Where the server ends, the last requests are sent again to new ones, to find which of them end it.

python -m benchmarks.storm.fuzz [--port http] [--seconds 1800] [--seed 0] [--found found]
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import pickle
import random
import socket
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]

from benchmarks.storm.random_requests import (
    MODELS,
    TYPES,
    Request,
    grpc_request,
    http_request,
    is_known,
)
from triton_ensemble.server.local_triton import LocalTriton
from triton_ensemble.server.process import ServerError

KEPT, WAIT_S, LARGEST_RSS = 2000, 3.0, 8 << 30
CODE = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def answer(self, request):
        given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        outputs = [pb_utils.Tensor("O" + name[1:], array) for name, array in given.items() if name[:2] == "I_"]
        return pb_utils.InferenceResponse(outputs)

    def execute(self, requests):
        if STREAM:
            for request in requests:
                sender = request.get_response_sender()
                sender.send(self.answer(request))
                sender.send(self.answer(request), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return None
        return [self.answer(request) for request in requests]
"""


def write_models(repository: Path) -> None:
    for model, more in MODELS.items():
        tensors = "".join(
            f'{side} {{ name: "{side[0].upper()}_{each}" data_type: TYPE_{each} dims: -1 {optional} }}\n'
            for side, optional in (("input", "optional: true"), ("output", ""))
            for each in TYPES
        )
        version = repository / model / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(f'backend: "python"\n{tensors}{more}\n')
        (version / "model.py").write_text(CODE.replace("STREAM", str(model == "stream")))


class Http:
    """Sends requests over one connection, as long as the server keeps it."""

    draw = staticmethod(http_request)

    def __init__(self, triton: LocalTriton) -> None:
        self.address = urlsplit(triton.http_url).hostname, urlsplit(triton.http_url).port
        self.connection: socket.socket | None = None

    def send(self, request: Request) -> str:
        try:
            if not self.connection:
                self.connection = socket.create_connection(self.address, WAIT_S)
            fields = "".join(f"{name}: {value}\r\n" for name, value in request.fields)
            head = f"{request.where} HTTP/1.1\r\n{fields}\r\n".encode("latin-1", "replace")
            fits = dict(request.fields).get("Content-Length") == str(len(request.bodies[0]))
            self.connection.settimeout(WAIT_S if fits else 0.05)
            self.connection.sendall(head + request.bodies[0])
            response = http.client.HTTPResponse(self.connection, method=request.where.split()[0])
            response.begin()
            response.read()
            if not fits or response.will_close:
                self.close()
            return str(response.status)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return type(error).__name__

    def close(self) -> None:
        if self.connection:
            self.connection.close()
        self.connection = None


class Grpc:
    """Sends requests over one channel; one in seven streams is cancelled at its first answer."""

    draw = staticmethod(grpc_request)

    def __init__(self, triton: LocalTriton) -> None:
        self.channel = grpc.insecure_channel(urlsplit(triton.grpc_url).netloc)

    def send(self, request: Request) -> str:
        path = f"/inference.GRPCInferenceService/{request.where}"
        try:
            if request.where == "ModelStreamInfer":
                call = self.channel.stream_stream(path)(iter(request.bodies), timeout=WAIT_S)
                for _ in call:
                    if len(request.bodies[0]) % 7 == 0:
                        call.cancel()
            else:
                self.channel.unary_unary(path)(request.bodies[0], timeout=WAIT_S)
        except grpc.RpcError as error:
            return str(error.code().name)
        return "OK"

    def close(self) -> None:
        self.channel.close()


def rss(triton: LocalTriton) -> int:
    pages = Path(f"/proc/{triton.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def why_ended(triton: LocalTriton) -> str:
    with contextlib.suppress(OSError):
        if rss(triton) > LARGEST_RSS:
            return f"{rss(triton):,} bytes of memory"
    try:
        triton.wait(lambda: True)
    except ServerError as error:
        return f"{error}\n{triton.log.read_text(errors='replace')[-6000:]}"
    return ""


@contextlib.contextmanager
def serving() -> Iterator[LocalTriton]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        write_models(Path(folder))
        for tries_left in (4, 3, 2, 1, 0):
            try:
                triton = stack.enter_context(LocalTriton(Path(folder), "plain"))
                break
            except ServerError:  # on a busy machine
                if not tries_left:
                    raise
        stack.push(lambda kind, *_: kind is ServerError)
        yield triton


def fuzz(
    port: type[Http] | type[Grpc], chance: random.Random, end: float, ends: Counter[str]
) -> tuple[str, deque[Request]]:
    """Send requests until `end`, or until the server ends: return why, and the last requests."""
    last = deque[Request](maxlen=KEPT)
    with serving() as triton:
        sender = port(triton)
        while time.monotonic() < end:
            request = port.draw(chance)
            if is_known(request):
                continue
            last.append(request)
            ends[sender.send(request)] += 1
            if ends.total() % 500 == 0 and port(triton).send(GOOD[port]) not in ("200", "OK"):
                time.sleep(1)
                return why_ended(triton) or "a good request is not answered", last
            if why := why_ended(triton):
                return why, last
        sender.close()
    return "", last


GOOD: dict[Any, Request] = {
    Http: Request("GET /v2/health/ready", (("Content-Length", "0"),), (b"",)),
    Grpc: Request("ServerReady", (), (b"",)),
}


def ends_it(port: type[Http] | type[Grpc], requests: list[Request]) -> bool:
    """Whether these requests end a server of their own."""
    why = ""
    with serving() as triton:
        sender = port(triton)
        for request in requests:
            sender.send(request)
        time.sleep(0.5)
        why = why_ended(triton)
    return bool(why)


def reduce(port: type[Http] | type[Grpc], last: list[Request]) -> list[Request]:
    """Return as few of the last requests as end a server; all of them where they do not."""
    tries = [*([each] for each in last[:-5:-1]), last]
    least = next((each for each in tries if ends_it(port, each)), [])
    size = len(least) // 2
    while size and len(least) > 1:
        parts = [least[:at] + least[at + size :] for at in range(0, len(least), size)]
        fewer = next((part for part in parts if ends_it(port, part)), None)
        least, size = (fewer, min(size, len(fewer) // 2)) if fewer else (least, size // 2)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storm.fuzz", description=__doc__)
    parser.add_argument("--port", choices=["http", "grpc"], default="http")
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, default=Path("found"))
    options = parser.parse_args()
    port = Http if options.port == "http" else Grpc
    chance, end, ends = (
        random.Random(options.seed),
        time.monotonic() + options.seconds,
        Counter[str](),
    )
    found = 0
    while time.monotonic() < end:
        why, last = fuzz(port, chance, end, ends)
        if why:
            found += 1
            least = reduce(port, list(last))
            print(
                f"after {ends.total():,} requests: {why}: by {least or 'none of the last'}",
                flush=True,
            )
            options.found.mkdir(exist_ok=True)
            (options.found / f"{options.port}-{options.seed}-{found}.pickle").write_bytes(
                pickle.dumps((why, least, list(last)))
            )
    print(
        f"{options.port}, seed {options.seed}: {ends.total():,} requests, {found} ends of the server: {dict(ends)}"
    )
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
