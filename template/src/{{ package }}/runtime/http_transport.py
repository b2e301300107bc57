# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Send requests over HTTP: tritonclient writes and reads their bodies, http.client sends them.

tritonclient's own connections belong to one thread and do not support a deadline. Requests/s of others, with 1, 8
and 32 threads, as a multiple of this module's: small bodies urllib3 0.92, 0.68, 0.65; aiohttp 0.64, 0.80, 0.98.
Bodies of 1 MB: urllib3 1.02, 1.04, 1.01; aiohttp 0.37, 0.40, 0.36.
"""

import io
import json
import os
import select
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from queue import Empty, LifoQueue
from typing import Any, TypeAlias
from urllib.parse import SplitResult, quote

from tritonclient import http  # type: ignore[import-untyped]

from ..tensors import MODEL
from .batches import Arrays
from .errors import InferenceError, ServerFailure, Unavailable, make_error
from .flow import Deadline
from .shared_memory import Region
from .transport import Request, Tls, decode_result, encode_request, is_secure

LENGTH = "Inference-Header-Content-Length"
PATH = f"models/{quote(MODEL)}"
REGIONS = "systemsharedmemory/region"

Headers: TypeAlias = Mapping[str, str]


class HttpTransport:
    """Keeps connections open for the next request; one thread at a time uses a connection.

    Its methods block. They are coroutines only because GrpcTransport's methods are.
    """

    def __init__(self, server: SplitResult, headers: Headers, tls: Tls) -> None:
        self._server, self._headers = server, dict(headers)
        self._connect: partial[HTTPConnection] = partial(HTTPConnection, server.netloc)
        if is_secure(server):
            context = ssl.create_default_context(cafile=tls.root_certificates)
            if tls.certificate_chain:
                context.load_cert_chain(tls.certificate_chain, tls.private_key)
            self._connect = partial(HTTPSConnection, server.netloc, context=context)
        self._idle: LifoQueue[HTTPConnection] = LifoQueue()
        self._busy: set[HTTPConnection] = set()

    async def infer(self, request: Request, region: Region | None = None) -> Arrays:
        inputs, outputs = encode_request(http, request, region)
        body, length = http.InferenceServerClient.generate_request_body(
            inputs, outputs=outputs, timeout=request.deadline.left_us(), **request.options
        )
        headers = {**request.headers, **({} if length is None else {LENGTH: str(length)})}
        response, content = self._send_request(f"{PATH}/infer", request.deadline, body, headers)
        length = response[LENGTH]
        try:
            result = http.InferenceServerClient.parse_response_body(
                content, header_length=length and int(length)
            )
            return decode_result(result, request.outputs)
        except InferenceError:
            raise
        except Exception:  # tritonclient raises many kinds for a body that it does not expect
            reason = f"{self._server.netloc} answers what is not Triton's"
            raise ServerFailure(f"{reason}: {_cut_words(content)}") from None

    async def ready(self, deadline: Deadline) -> bool:
        self._send_request(f"{PATH}/ready", deadline)
        return True

    async def register(self, region: Region, deadline: Deadline) -> None:
        body = json.dumps({"key": region.key, "offset": 0, "byte_size": region.size_bytes})
        self._send_request(f"{REGIONS}/{region.name}/register", deadline, body.encode())

    async def unregister(self, region: Region, deadline: Deadline) -> None:
        self._send_request(f"{REGIONS}/{region.name}/unregister", deadline, b"")

    def forget(self) -> None:
        """Drop the connections of the parent process: an answer on one of them may be the parent's.

        Close their sockets in this process only, without a lock, which another thread of the parent may hold.
        """
        for connection in (*self._idle.queue, *self._busy):
            if connection.sock:
                os.close(connection.sock.detach())
        self._idle, self._busy = LifoQueue(), set()

    async def close(self) -> None:
        """Close all connections, also those on which other threads wait."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()
        for connection in list(self._busy):
            if connection.sock:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def _send_request(
        self, path: str, deadline: Deadline, body: bytes | None = None, more: Headers | None = None
    ) -> tuple[HTTPMessage, bytes]:
        """Return the headers and the content of a response; raise InferenceError for an error or a late response."""
        method, path = "GET" if body is None else "POST", f"{self._server.path}/v2/{path}"
        headers = {**self._headers, **(more or {})}
        with self._translate(deadline), self._lend() as connection:
            connection.timeout = deadline.left()
            if connection.sock:
                connection.sock.settimeout(connection.timeout)
            connection.response_class = partial(_response, deadline)  # type: ignore[assignment]
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = response.read()
            sent = response.headers
            if not (response.chunked or sent["Content-Length"] or sent["Connection"]):
                raise IncompleteRead(content)  # the head itself is cut: Triton gives a length
        if response.status != 200:
            raise make_error(str(response.status), _read_error_text(content))
        return response.headers, content

    @contextmanager
    def _lend(self) -> Iterator[HTTPConnection]:
        connection = self._reuse_connection() or self._connect()
        self._busy.add(connection)
        try:
            yield connection
            self._idle.put(connection)
        except BaseException:
            connection.close()
            raise
        finally:
            self._busy.discard(connection)

    def _reuse_connection(self) -> HTTPConnection | None:
        """Return a connection of an earlier request that the server has not closed since."""
        with suppress(Empty):
            while True:
                connection = self._idle.get_nowait()
                if connection.sock and not _has_input(connection.sock):
                    return connection
                connection.close()
        return None

    @contextmanager
    def _translate(self, deadline: Deadline) -> Iterator[None]:
        """Raise the errors of sockets and of http.client as an InferenceError."""
        address = self._server.netloc
        try:
            yield
        except TimeoutError:
            raise deadline.make_timeout() from None
        except ssl.SSLError as error:
            raise ServerFailure(f"{address}: {error}") from None
        except OSError as error:
            raise Unavailable(f"{address}: {error}") from None
        except HTTPException as error:
            is_cut = isinstance(error, BadStatusLine) and "HTTP/".startswith(str(error)[:5])
            if is_cut or isinstance(error, IncompleteRead):
                raise Unavailable(f"{address}: the connection ended in the answer") from None
            reason = "the answer is not HTTP; is this the port of gRPC?"
            raise ServerFailure(f"{address}: {reason}") from None


class _Received(io.RawIOBase):
    """Read from a socket until the deadline: http.client alone would start its timeout again for each byte."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock, self._deadline = sock, deadline
        self._file = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._deadline.left())
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def _response(deadline: Deadline, sock: socket.socket, **options: Any) -> HTTPResponse:
    response = HTTPResponse(sock, **options)
    response.fp.close()
    response.fp = io.BufferedReader(_Received(sock, deadline))
    return response


def _has_input(sock: socket.socket) -> bool:
    """Return whether the socket has data without a request: usually, the server has closed the connection."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _read_error_text(content: bytes) -> str:
    """Return Triton's error message, or the first words of a message of a proxy in front of it."""
    try:
        return str(json.loads(content)["error"])
    except (KeyError, TypeError, ValueError):
        return _cut_words(content)


def _cut_words(content: bytes) -> str:
    return str(content[:200], "utf-8", "replace")
