"""A client of the storm over HTTP or gRPC: bytes go out as they are, and an answer or an error comes back."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import NamedTuple
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]
from storm_requests import MODEL, Body
from tritonclient.grpc import service_pb2  # type: ignore[import-untyped]

METHOD = "/inference.GRPCInferenceService/ModelInfer"
LENGTH = b"inference-header-content-length"
LONGEST_S = 30.0


class Response(NamedTuple):
    """`status` is that of HTTP or gRPC; `data` the bytes of ANSWER if `right`, else the error's text."""

    status: str
    data: bytes

    @property
    def right(self) -> bool:
        return self.status in ("200", "OK")


class Client(ABC):
    @abstractmethod
    async def ask(self, body: Body) -> Response:
        """Raises OSError where the server closes the connection, TimeoutError where it says nothing."""

    @abstractmethod
    async def close(self) -> None: ...


class HttpClient(Client):
    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).hostname, urlsplit(url).port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, body: Body) -> Response:
        try:
            return await asyncio.wait_for(self._asked(body), LONGEST_S)
        except BaseException:
            await self.close()
            raise

    async def _asked(self, body: Body) -> Response:
        if not self._streams:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        data = head_of(body) + body.data
        writer.write(data[: len(data) - len(body.data) // 2] if body.hang_up else data)
        await writer.drain()
        if body.hang_up:
            raise ConnectionAbortedError
        return await response_of(reader)

    async def close(self) -> None:
        if self._streams:
            self._streams[1].close()
        self._streams = None


def head_of(body: Body) -> bytes:
    length = f"{LENGTH.decode()}: {body.json_length}\r\n" if body.json_length else ""
    return (
        f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body.data)}\r\n"
        f"{length}{body.fields}\r\n"
    ).encode()


async def response_of(reader: asyncio.StreamReader) -> Response:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("closed without an answer") from error
    first, *lines = head.lower().split(b"\r\n")
    fields = dict(line.split(b": ", 1) for line in lines if line)
    data = await reader.readexactly(int(fields[b"content-length"]))
    start = int(fields.get(LENGTH, 0))  # of the only tensor, behind the JSON; an error has none
    return Response(first.split()[1].decode(), data[start:])


class GrpcClient(Client):
    def __init__(self, url: str) -> None:
        # Its own connection: channels of equal options share one.
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.aio.insecure_channel(urlsplit(url).netloc, options)
        self._infer = self._channel.unary_unary(METHOD)

    async def ask(self, body: Body) -> Response:
        try:
            data = await self._infer(body.data, timeout=LONGEST_S)
        except grpc.aio.AioRpcError as error:
            return Response(error.code().name, (error.details() or "").encode())
        [tensor] = service_pb2.ModelInferResponse.FromString(data).raw_output_contents
        return Response("OK", tensor)

    async def close(self) -> None:
        await self._channel.close()
