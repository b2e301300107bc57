# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Send requests over HTTP: tritonclient writes and reads their bodies, http.client opens connections and reads responses.

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
from .transport import Request, Tls, decode_result, encode_request, is_secure, lower_names

LENGTH = "inference-header-content-length"
PATH = f"models/{quote(MODEL)}"
REGIONS = "systemsharedmemory/region"

Headers: TypeAlias = Mapping[str, str]


class Received(io.RawIOBase):
    """Read from a socket until the deadline: http.client alone would start its timeout again for each byte."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock, self._deadline = sock, deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return the file that http.client asks a socket for."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left())
        return self._sock.recv_into(buffer)


class Response(HTTPResponse):
    """A response that is received in full, as tritonclient reads it."""

    def __init__(self, received: Received, method: str) -> None:
        super().__init__(received, method=method)  # type: ignore[arg-type]
        self.begin()
        self.content = super().read()
        if not (self.chunked or self.headers["Content-Length"] or self.headers["Connection"]):
            raise IncompleteRead(self.content)  # the head itself is cut: Triton gives a length
        self.get, self._content = self.headers.get, io.BytesIO(self.content)

    def read(self, length: int | None = None) -> bytes:
        return self._content.read(length)


class HttpTransport:
    """Keeps connections open for the next request; one thread at a time uses a connection.

    Its methods block. They are coroutines only because GrpcTransport's methods are.
    """

    def __init__(self, server: SplitResult, headers: Headers, tls: Tls) -> None:
        self._server = server
        own = {"host": server.netloc, "accept-encoding": "identity"}
        self._headers = {**own, **lower_names(headers)}
        self._connect: partial[HTTPConnection] = partial(HTTPConnection, server.netloc)
        if is_secure(server):
            context = ssl.create_default_context(cafile=tls.root_certificates)
            if tls.certificate_chain:
                context.load_cert_chain(tls.certificate_chain, tls.private_key)
            self._connect = partial(HTTPSConnection, server.netloc, context=context)
        self._idle: LifoQueue[socket.socket] = LifoQueue()
        self._busy: set[socket.socket] = set()

    async def infer(self, request: Request, region: Region | None = None) -> Arrays:
        inputs, outputs = encode_request(http, request, region)
        body, length = http.InferenceServerClient.generate_request_body(
            inputs, outputs=outputs, timeout=request.deadline.left_us(), **request.options
        )
        headers = lower_names(request.headers)
        if length is not None:
            headers[LENGTH] = str(length)
        answer = self._send_request(f"{PATH}/infer", request.deadline, body, headers)
        try:
            return decode_result(http.InferResult(answer, False), request.outputs)
        except InferenceError:
            raise
        except Exception:  # tritonclient raises many kinds for a body that it does not expect
            reason = f"{self._server.netloc} answers what is not Triton's"
            raise ServerFailure(f"{reason}: {_cut_words(answer.content)}") from None

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
        for sock in (*self._idle.queue, *self._busy):
            if (descriptor := sock.detach()) >= 0:
                os.close(descriptor)
        self._idle, self._busy = LifoQueue(), set()

    async def close(self) -> None:
        """Close all connections, also those on which other threads wait."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()
        for sock in list(self._busy):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _send_request(
        self, path: str, deadline: Deadline, body: bytes | None = None, more: Headers | None = None
    ) -> Response:
        """Return a response; raise InferenceError for an error or a late response."""
        method = "GET" if body is None else "POST"
        headers = {"content-length": len(body or b""), **self._headers, **(more or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{method} {self._server.path}/v2/{path} HTTP/1.1\r\n{lines}\r\n"
        with self._translate(deadline), self._lend(deadline) as sock:
            sock.settimeout(deadline.left())
            sock.sendall(head.encode("latin-1") + (body or b""))
            response = Response(Received(sock, deadline), method)
            if response.will_close:
                sock.close()
        if response.status != 200:
            raise make_error(str(response.status), _read_error_text(response.content))
        return response

    @contextmanager
    def _lend(self, deadline: Deadline) -> Iterator[socket.socket]:
        sock = self._reuse_connection() or self._open_connection(deadline)
        self._busy.add(sock)
        try:
            yield sock
            if sock.fileno() >= 0:  # the response may have closed it
                self._idle.put(sock)
        except BaseException:
            sock.close()
            raise
        finally:
            self._busy.discard(sock)

    def _open_connection(self, deadline: Deadline) -> socket.socket:
        connection = self._connect(timeout=deadline.left())
        connection.connect()
        return connection.sock

    def _reuse_connection(self) -> socket.socket | None:
        """Return a connection of an earlier request that the server has not closed since."""
        with suppress(Empty):
            while True:
                sock = self._idle.get_nowait()
                if not _has_input(sock):
                    return sock
                sock.close()
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
