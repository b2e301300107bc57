"""Triton over HTTP as the gateway asks it: an answer, or one of the client's errors."""

from __future__ import annotations

import asyncio
import importlib
import json
import struct
import sys
import time
from collections import namedtuple
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from types import ModuleType, SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import pytest
from support import ROOT
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.facts.client import Arrays
from triton_ensemble.gateway.predict import Predictor
from triton_ensemble.gateway.triton_http import TritonHttp, _Connection

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter
Serve = Callable[[Reader, Writer], Awaitable[None]]


def runtime(name: str, **tensors: Any) -> Any:
    """Return what is the same in the clients of all projects, as that of a package with these tensors."""
    package, own = ModuleType(name), ModuleType(f"{name}.tensors")
    package.__path__ = [str(ROOT / "template/src/{{ package }}")]
    vars(own).update(tensors)
    sys.modules.update({name: package, own.__name__: own})
    for module in ("batches", "bodies", "errors", "transport"):
        importlib.import_module(f"{name}.runtime.{module}")
    return importlib.import_module(f"{name}.runtime")


Tensor = namedtuple("Tensor", "datatype dims optional")
OUTPUTS = {"TEXT": Tensor("BYTES", (1,), False), "NUMBER": Tensor("FP32", (-1,), False)}
TENSORS = {"MODEL": "a b", "SEQUENTIAL": False, "MAX_BATCH_SIZE": 2, "INPUTS": {}, "OUTPUTS": OUTPUTS, "Tensor": Tensor}  # fmt: skip
RUNTIME = runtime("client_of_test_triton_http", **TENSORS)
ERRORS = RUNTIME.errors
CLIENT = SimpleNamespace(
    tensors=SimpleNamespace(**TENSORS), runtime=RUNTIME, InferenceError=ERRORS.InferenceError
)
INPUTS: Arrays = {
    "TEXT": np.array([[b"\xff\0"], [b""]], object),
    "NUMBER": np.array([[1, 2], [3, 4]], np.float32),
}


@asynccontextmanager
async def triton(serve: Serve) -> AsyncIterator[TritonHttp]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, TritonHttp(f"http://127.0.0.1:{port}/proxied/", CLIENT) as connection:
        yield connection


async def request(reader: Reader) -> tuple[str, dict[str, Any], bytes]:
    """Return the first line of a request, its JSON, and the bytes of its tensors."""
    line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    headers = dict(text.lower().split(": ") for text in lines if text)
    body = await reader.readexactly(int(headers["content-length"]))
    length = int(headers["inference-header-content-length"])
    return line, json.loads(body[:length]), body[length:]


def answer(status: str, content: bytes, length: int = 0) -> bytes:
    more = f"Inference-Header-Content-Length: {length}\r\n" if length else ""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n{more}\r\n"
    return head.encode() + content


async def echo(reader: Reader, writer: Writer) -> None:
    """Answer with the inputs, as often as it is asked."""
    while not reader.at_eof():
        line, asked, tensors = await request(reader)
        assert line == "POST /proxied/v2/models/a%20b/infer HTTP/1.1"
        assert 4_000_000 < asked["parameters"]["timeout"] <= 5_000_000
        head = json.dumps({"outputs": asked["inputs"]}).encode()
        message = answer("200 OK", head + tensors, len(head) if tensors else 0)
        for part in (message[:20], message[20:]):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)


def test_tensors_come_and_go_as_bytes() -> None:
    async def main() -> None:
        async with triton(echo) as connection:
            for _ in range(2):
                outputs = await connection.send(INPUTS, timeout=5.0, request_id="mine")
                assert outputs["TEXT"].tolist() == [[b"\xff\0"], [b""]]
                assert outputs["NUMBER"].tolist() == [[1, 2], [3, 4]]
            assert len(connection._idle) == 1
            empty = await connection.send({n: a[:, :0] for n, a in INPUTS.items()}, timeout=5.0)
            assert [array.shape for array in empty.values()] == [(2, 0), (2, 0)]

    asyncio.run(main())


def test_large_tensors_are_not_copied() -> None:
    bodies, array = RUNTIME.bodies, np.arange(8, dtype=np.float32).reshape(2, 4)
    assert np.shares_memory(np.frombuffer(bodies.encode_tensor(array), np.uint8), array)
    assert bodies.encode_tensor(array[:, ::2]) == array[:, ::2].tobytes()
    content = good(7).partition(b"\r\n\r\n")[2]
    decoded = bodies.decode(content, content.index(b"}}]}") + 4, ["NUMBER"], "host")["NUMBER"]
    assert np.shares_memory(decoded, np.frombuffer(content, np.uint8))


CUT = b'{"outputs": [{"name": "TEXT", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 5}}]}'
FAILURES: dict[str, tuple[bytes, type[Exception]]] = {
    "refused": (answer("400 Bad", b'{"error": "text"}'), ERRORS.InvalidInput),
    "busy": (answer("503 Busy", b"a proxy's page"), ERRORS.Unavailable),
    "failed": (answer("500 Failed", b'{"error": "text"}'), ERRORS.ServerFailure),
    "half an answer": (answer("200 OK", b"1234")[:-2], ERRORS.Unavailable),
    "nothing": (b"", ERRORS.Unavailable),
    "another protocol": (b"\0\0\x12\x04", ERRORS.ServerFailure),
    "another answer": (answer("200 OK", b"hello"), ERRORS.ServerFailure),
    "nested too deep": (answer("200 OK", b"[" * 100_000), ERRORS.ServerFailure),
    "a text that ends early": (
        answer("200 OK", CUT + b"\5\0\0\0a", len(CUT)),
        ERRORS.ServerFailure,
    ),
    "an output less": (answer("200 OK", b'{"outputs": []}'), ERRORS.ServerFailure),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_what_is_no_answer_is_an_error_of_the_client(kind: str) -> None:
    message, error = FAILURES[kind]

    async def serve(reader: Reader, writer: Writer) -> None:
        await request(reader)
        writer.write(message)
        writer.close()

    async def main() -> None:
        async with triton(serve) as connection:
            for _ in range(2):  # a connection that was closed is not used again
                with pytest.raises(error):
                    await connection.send(INPUTS, timeout=5.0)
                await asyncio.sleep(0.01)  # the end of the connection comes after the answer

    asyncio.run(main())


def good(number: float, more: str = "") -> bytes:
    """Return an answer of a number."""
    sizes = {"TEXT": ("BYTES", 5), "NUMBER": ("FP32", 4)}
    outputs = [
        {"name": n, "datatype": t, "shape": [1], "parameters": {"binary_data_size": size}}
        for n, (t, size) in sizes.items()
    ]
    head = json.dumps({"outputs": outputs}).encode()
    content = head + b"\1\0\0\0a" + struct.pack("<f", number)
    return answer(f"200 OK\r\n{more}".rstrip(), content, len(head))


UNASKED = {
    "another before": lambda number: [answer("100 Continue", b""), good(number)],
    "a part of another with it": lambda number: [good(number) + good(9)[:-2]],
    "it ends": lambda number: [good(number, "Connection: close"), b""],
}


@pytest.mark.parametrize("kind", UNASKED)
def test_each_request_has_its_own_answer(kind: str) -> None:
    """Whatever else comes with it, and also where the server says that it ends the connection, and does so later."""
    asked = 0

    async def serve(reader: Reader, writer: Writer) -> None:
        nonlocal asked
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await request(reader)
                asked += 1
                for part in UNASKED[kind](asked):
                    writer.write(part)
                    await asyncio.sleep(0.02)
                    if not part:
                        writer.close()

    async def main() -> None:
        async with triton(serve) as connection:
            for number in (1, 2, 3):
                outputs = await connection.send(INPUTS, timeout=5.0)
                assert outputs["NUMBER"] == [number]

    asyncio.run(main())


def test_a_connection_that_ends_as_it_is_made_is_unavailable() -> None:
    """A proxy accepts such a connection for a server that is not there. It may be closed before it is used."""

    async def main() -> None:
        connection = _Connection()
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            address = server.sockets[0].getsockname()
            await asyncio.get_running_loop().create_connection(lambda: connection, *address)
            while not connection.transport.is_closing():
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            with pytest.raises(ConnectionError):
                await connection.ask(b"a", 5.0)

    asyncio.run(main())


@pytest.mark.parametrize(("part", "asked"), [(b"", 3), (b"HTTP/1.1 200", 2)])
def test_a_connection_that_ends_as_it_is_used_again_is_replaced_once(
    part: bytes, asked: int
) -> None:
    """If the server has sent a part of the answer, it has computed: the request is not sent again."""
    requests = 0

    async def serve(reader: Reader, writer: Writer) -> None:
        nonlocal requests
        for message in (good(1), part):
            with suppress(asyncio.IncompleteReadError):
                await request(reader)
                requests += 1
                writer.write(message)
                await writer.drain()
        writer.close()

    async def main() -> None:
        async with triton(serve) as connection:
            await connection.send(INPUTS, timeout=5.0)
            with suppress(ERRORS.Unavailable) if part else nullcontext():
                outputs = await connection.send(INPUTS, timeout=5.0)
                assert outputs["NUMBER"] == [1]
        assert requests == asked

    asyncio.run(main())


@pytest.mark.parametrize("content", [b"a proxy's page", b'{"model_stats": 1}'])
def test_statistics_that_are_none_are_an_error_of_the_client(content: bytes) -> None:
    async def serve(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer("200 OK", content))
        writer.close()

    async def main() -> None:
        async with triton(serve) as connection:
            with pytest.raises(InferenceServerException):
                await connection.get_inference_statistics(client_timeout=5.0)

    asyncio.run(main())


def test_nobody_there_is_unavailable() -> None:
    async def main() -> None:
        with pytest.raises(ERRORS.Unavailable):
            await TritonHttp("http://127.0.0.1:1", CLIENT).send(INPUTS, timeout=5.0)

    asyncio.run(main())


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_an_answer_that_nobody_waits_for_ends_its_connection(is_cancelled: bool) -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def serve(reader: Reader, writer: Writer) -> None:
            await request(reader)
            assert not await reader.read()
            ended.set()
            writer.close()

        async with triton(serve) as connection:
            call = asyncio.ensure_future(connection.send(INPUTS, timeout=0.2))
            if is_cancelled:
                await asyncio.sleep(0.05)
                call.cancel()
            with pytest.raises(asyncio.CancelledError if is_cancelled else ERRORS.DeadlineExceeded):
                await call
            await asyncio.wait_for(ended.wait(), 5)
            assert not connection._idle

    asyncio.run(main())


def test_rows_of_a_request_share_calls_by_the_length_of_their_texts() -> None:
    """They come back in the order of the request, and an error names the row of the request."""
    texts = {"TEXT": Tensor("BYTES", (1,), False)}
    tensors = {**TENSORS, "INPUTS": texts, "OUTPUTS": texts}
    parts = runtime("client_of_rows", **tensors)
    client: Any = SimpleNamespace(
        tensors=SimpleNamespace(**tensors), runtime=parts, InvalidInput=parts.errors.InvalidInput
    )
    sent: list[list[bytes]] = []

    async def send(arrays: Arrays, **_: Any) -> Arrays:
        cells = arrays["TEXT"].ravel().tolist()
        sent.append(cells)
        if b"!!" in cells:
            raise client.InvalidInput("row 0: is refused" if len(cells) == 1 else "is refused")
        return arrays

    async def main() -> None:
        predictor = Predictor(client, SimpleNamespace(send=send), shared=False)
        rows = [b"a" * 9, b"b", b"!!", b"c" * 8, b"d" * 3]
        answer = await predictor.answer({"TEXT": rows}, 9, time.monotonic() + 9, {})
        assert sent == [[b"b", b"!!"], [b"ddd", b"c" * 8], [b"a" * 9], [b"b"], [b"!!"]]
        assert predictor.join(answer.parts)["TEXT"].ravel().tolist() == [*rows[:2], *rows[3:]]
        assert {row: str(error) for row, error in answer.errors.items()} == {2: "row 2: is refused"}

    asyncio.run(main())
