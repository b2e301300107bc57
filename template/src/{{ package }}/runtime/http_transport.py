# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Send requests over HTTP: urllib3's pool opens, checks and keeps connections, http.client reads responses.

tritonclient's own connections belong to one thread and do not support a deadline. The pool's `urlopen` does not
keep one either while a response drips, and a call by it takes 1.5 times as much processor time.
"""

import io
import os
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import BadStatusLine, HTTPException, HTTPResponse, IncompleteRead
from queue import LifoQueue
from typing import Any
from urllib.parse import SplitResult, quote
from weakref import WeakValueDictionary

from urllib3 import connection_from_url
from urllib3.exceptions import HTTPError

from ..tensors import MODEL
from .batches import Arrays
from .bodies import LENGTH, decode, encode, read_error
from .errors import ServerFailure, Unavailable, make_error
from .transport import Deadline, Request, Tls, lower_names

COPIED_BYTES = 1 << 16  # a request of up to this size is sent in one piece
PATH = f"models/{quote(MODEL)}"


class Received(socket.SocketIO):
    """Read from a socket until the deadline: http.client alone would start its timeout again for each byte."""

    _sock: socket.socket
    deadline: Deadline

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self.deadline.left())
        return super().readinto(buffer)


class HttpTransport:
    """Keeps connections open for the next request; one thread at a time uses a connection.

    Its methods block. They are coroutines only because GrpcTransport's methods are.
    """

    def __init__(self, server: SplitResult, headers: Mapping[str, str], tls: Tls) -> None:
        self._server = server
        own = {"host": server.netloc, "accept-encoding": "identity"}
        self._headers = {**own, **lower_names(headers)}
        options: dict[str, Any] = {"maxsize": 0}  # no limit
        if server.scheme == "https":
            context = ssl.create_default_context(cafile=tls.root_certificates)
            if tls.certificate_chain:
                context.load_cert_chain(tls.certificate_chain, tls.private_key)
            options["ssl_context"] = context
        self._pool = connection_from_url(f"{server.scheme}://{server.netloc}", **options)
        self._opened: WeakValueDictionary[int, Any] = WeakValueDictionary()

    async def infer(self, request: Request) -> Arrays:
        body = encode(request)
        headers = {**lower_names(request.headers), LENGTH: str(len(body[0]))}
        content, length = self.send(f"{PATH}/infer", request.deadline, body, **headers)
        return decode(content, length, request.outputs, self._server.netloc)

    async def ready(self, deadline: Deadline) -> bool:
        self.send(f"{PATH}/ready", deadline)
        return True

    def forget(self) -> None:
        """Close the parent's connections in this process only, and replace the pool's lock, which a thread may hold."""
        if self._pool.pool:
            LifoQueue.__init__(self._pool.pool)
        for sock in self._find_sockets():
            if (descriptor := sock.detach()) >= 0:
                os.close(descriptor)

    async def close(self) -> None:
        """Close all connections, also those on which other threads wait."""
        self._pool.close()
        for sock in self._find_sockets():
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def send(
        self, path: str, deadline: Deadline, body: Sequence[Any] = (), /, **more: str
    ) -> tuple[bytes, str | None]:
        """Return a response and the size of its JSON; raise InferenceError for an error or a late response."""
        method, size = "POST" if body else "GET", sum(map(len, body))
        headers = {"content-length": size, **self._headers, **more}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{method} {self._server.path}/v2/{path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")
        sent = [b"".join([head, *body])] if size < COPIED_BYTES else [head, *body]
        with self._translate(deadline), self._lend(deadline) as connection:
            for part in sent:
                connection.sock.settimeout(deadline.left())
                connection.sock.sendall(part)
            received = Received(connection.sock, "r")
            received.deadline = deadline
            response = HTTPResponse(connection.sock, method=method)
            response.fp = io.BufferedReader(received)
            response.begin()
            content, given = response.read(), response.headers
            if not (response.chunked or given["Content-Length"] or given["Connection"]):
                raise IncompleteRead(content)  # the head itself is cut: Triton gives a length
            if response.will_close:
                connection.close()
        if response.status != 200:
            raise make_error(str(response.status), read_error(content))
        return content, given[LENGTH]

    @contextmanager
    def _lend(self, deadline: Deadline) -> Iterator[Any]:
        """Yield a connection: an idle one that the server has not closed since, or a new one."""
        connection: Any = self._pool._get_conn()
        try:
            if connection.sock is None:
                self._opened[id(connection)] = connection
                connection.timeout = deadline.left()
                connection.connect()
            yield connection
        except BaseException:
            connection.close()
            raise
        finally:
            self._pool._put_conn(connection)

    def _find_sockets(self) -> list[socket.socket]:
        connections = [reference() for reference in self._opened.valuerefs()]
        return [sock for each in connections if each and (sock := each.sock)]

    @contextmanager
    def _translate(self, deadline: Deadline) -> Iterator[None]:
        """Raise the errors of sockets, of http.client and of urllib3 as an InferenceError."""
        address = self._server.netloc
        try:
            yield
        except (HTTPError, HTTPException, OSError) as error:
            cause = error.__cause__ or error  # urllib3 raises its own errors from those of sockets
            if isinstance(cause, TimeoutError):
                raise deadline.make_timeout() from None
            if isinstance(cause, ssl.SSLError):
                raise ServerFailure(f"{address}: {cause}") from None
            if isinstance(cause, OSError):
                raise Unavailable(f"{address}: {cause}") from None
            is_cut = isinstance(cause, BadStatusLine) and "HTTP/".startswith(str(cause)[:5])
            if is_cut or isinstance(cause, IncompleteRead):
                raise Unavailable(f"{address}: the connection ended in the answer") from None
            reason = "the answer is not HTTP; is this the port of gRPC?"
            raise ServerFailure(f"{address}: {reason}") from None
