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
from functools import partial
from http.client import BadStatusLine, HTTPException, HTTPResponse, IncompleteRead
from queue import LifoQueue
from typing import Any, TypeAlias
from urllib.parse import SplitResult, quote
from weakref import WeakValueDictionary

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from ..tensors import MODEL
from .batches import Arrays
from .bodies import LENGTH, decode, encode, read_error
from .errors import ServerFailure, Unavailable, make_error
from .flow import Deadline
from .transport import Request, Tls, is_secure, lower_names

COPIED_BYTES = 1 << 16  # a request of up to this size is sent in one piece
PATH = f"models/{quote(MODEL)}"

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
    """A response that is received in full."""

    def __init__(self, received: Received, method: str) -> None:
        super().__init__(received, method=method)  # type: ignore[arg-type]
        self.begin()
        self.content = self.read()
        if not (self.chunked or self.headers["Content-Length"] or self.headers["Connection"]):
            raise IncompleteRead(self.content)  # the head itself is cut: Triton gives a length


class HttpTransport:
    """Keeps connections open for the next request; one thread at a time uses a connection.

    Its methods block. They are coroutines only because GrpcTransport's methods are.
    """

    def __init__(self, server: SplitResult, headers: Headers, tls: Tls) -> None:
        self._server = server
        own = {"host": server.netloc, "accept-encoding": "identity"}
        self._headers = {**own, **lower_names(headers)}
        limitless: dict[str, Any] = {"host": server.hostname, "port": server.port, "maxsize": 0}
        self._make_pool: partial[HTTPConnectionPool] = partial(HTTPConnectionPool, **limitless)
        if is_secure(server):
            context = ssl.create_default_context(cafile=tls.root_certificates)
            if tls.certificate_chain:
                context.load_cert_chain(tls.certificate_chain, tls.private_key)
            self._make_pool = partial(HTTPSConnectionPool, **limitless, ssl_context=context)
        self._opened: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._pool = self._make_pool()

    async def infer(self, request: Request) -> Arrays:
        body = encode(request)
        headers = {**lower_names(request.headers), LENGTH: str(len(body[0]))}
        response = self.send(f"{PATH}/infer", request.deadline, body, headers)
        length = response.headers[LENGTH]
        return decode(response.content, length, request.outputs, self._server.netloc)

    async def ready(self, deadline: Deadline) -> bool:
        self.send(f"{PATH}/ready", deadline)
        return True

    def forget(self) -> None:
        """Drop the connections of the parent process: an answer on one of them may be the parent's.

        Close their sockets in this process only, and give up the lock of the pool, which another thread may hold.
        """
        if self._pool.pool:
            LifoQueue.__init__(self._pool.pool)
        for sock in self._find_sockets():
            if (descriptor := sock.detach()) >= 0:
                os.close(descriptor)
        self._pool = self._make_pool()

    async def close(self) -> None:
        """Close all connections, also those on which other threads wait."""
        self._pool.close()
        for sock in self._find_sockets():
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def send(
        self,
        path: str,
        deadline: Deadline,
        body: Sequence[Any] | None = None,
        more: Headers | None = None,
    ) -> Response:
        """Return a response; raise InferenceError for an error or a late response."""
        method, parts = ("GET", ()) if body is None else ("POST", body)
        size = sum(map(len, parts))
        headers = {"content-length": size, **self._headers, **(more or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{method} {self._server.path}/v2/{path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")
        sent = [b"".join([head, *parts])] if size < COPIED_BYTES else [head, *parts]
        with self._translate(deadline), self._lend(deadline) as connection:
            for part in sent:
                connection.sock.settimeout(deadline.left())
                connection.sock.sendall(part)
            response = Response(Received(connection.sock, deadline), method)
            if response.will_close:
                connection.close()
        if response.status != 200:
            raise make_error(str(response.status), read_error(response.content))
        return response

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
            if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError):
                raise Unavailable(f"{address}: {cause}") from None
            is_cut = isinstance(cause, BadStatusLine) and "HTTP/".startswith(str(cause)[:5])
            if is_cut or isinstance(cause, IncompleteRead):
                raise Unavailable(f"{address}: the connection ended in the answer") from None
            is_tls = isinstance(cause, ssl.SSLError)
            reason = cause if is_tls else "the answer is not HTTP; is this the port of gRPC?"
            raise ServerFailure(f"{address}: {reason}") from None
