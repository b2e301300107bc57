# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Requests over HTTP: tritonclient writes and reads their bodies.

It does not send them: its own connections belong to one thread, know no deadline of a call, and
wait 10 ms before each of several requests at once.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPSConnection
from queue import Empty, LifoQueue
from socket import SHUT_RDWR
from typing import Any, NamedTuple
from urllib.parse import quote

from tritonclient import http  # type: ignore[import-untyped]

from .batches import Arrays
from .deadline import Deadline
from .errors import InferenceError, ServerFailure, Unavailable, failure
from .receiving import has_input, response_in_time
from .shared_memory import Region
from .tensors import MODEL
from .transport import Server, Tls, arrays, tensors, wanted

LENGTH = "Inference-Header-Content-Length"


class Answer(NamedTuple):
    status: int
    headers: HTTPMessage
    body: bytes


class HttpTransport:
    """Keeps connections open for the next request; each is used by one thread at a time."""

    def __init__(self, server: Server, headers: Mapping[str, str], tls: Tls) -> None:
        self._server = server
        self._headers = dict(headers)
        self._context = _context(tls) if server.secure else None
        self._idle: LifoQueue[HTTPConnection] = LifoQueue()
        self._busy: set[HTTPConnection] = set()

    def infer(
        self,
        inputs: Arrays,
        outputs: Sequence[str],
        deadline: Deadline,
        options: Mapping[str, Any],
        region: Region | None,
    ) -> Arrays:
        body, length = http.InferenceServerClient.generate_request_body(
            tensors(http, inputs, region), outputs=wanted(http, outputs), **options
        )
        headers = {} if length is None else {LENGTH: str(length)}
        answer = self._post(f"/v2/models/{quote(MODEL)}/infer", body, headers, deadline)
        return self._arrays(answer, outputs)

    def ready(self, deadline: Deadline) -> bool:
        answer = self._ask("GET", f"/v2/models/{quote(MODEL)}/ready", b"", {}, deadline)
        return answer.status == 200

    def register(self, region: Region, deadline: Deadline) -> None:
        body = json.dumps({"key": region.key, "offset": 0, "byte_size": region.size_bytes})
        path = f"/v2/systemsharedmemory/region/{region.name}/register"
        self._post(path, body.encode(), {}, deadline)

    def unregister(self, region: Region, deadline: Deadline) -> None:
        path = f"/v2/systemsharedmemory/region/{region.name}/unregister"
        self._post(path, b"", {}, deadline)

    def close(self) -> None:
        """Ends what other threads wait for, too."""
        while connection := self._taken():
            connection.close()
        for connection in list(self._busy):
            if connection.sock:
                with suppress(OSError):
                    connection.sock.shutdown(SHUT_RDWR)

    def _post(self, path: str, body: bytes, headers: dict[str, str], deadline: Deadline) -> Answer:
        answer = self._ask("POST", path, body, headers, deadline)
        if answer.status != 200:
            raise failure(_told(answer.body), str(answer.status))
        return answer

    def _ask(
        self, method: str, path: str, body: bytes, headers: dict[str, str], deadline: Deadline
    ) -> Answer:
        address = self._server.address
        try:
            request = (method, self._server.path + path, body, self._headers | headers)
            return self._exchange(self._kept() or self._connection(), request, deadline)
        except TimeoutError:
            raise deadline.exceeded() from None
        except ssl.SSLError as error:
            raise ServerFailure(f"{address}: {error}") from None
        except OSError as error:
            raise Unavailable(f"{address}: {error}") from None
        except HTTPException:
            told = "the answer is not HTTP; is this the port of gRPC?"
            raise ServerFailure(f"{address}: {told}") from None

    def _exchange(
        self,
        connection: HTTPConnection,
        request: tuple[str, str, bytes, dict[str, str]],
        deadline: Deadline,
    ) -> Answer:
        method, path, body, headers = request
        self._busy.add(connection)
        try:
            connection.timeout = deadline.left()
            if connection.sock:
                connection.sock.settimeout(connection.timeout)
            connection.response_class = partial(response_in_time, deadline)  # type: ignore[assignment]
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        finally:
            self._busy.discard(connection)
        self._idle.put(connection)
        return Answer(response.status, response.headers, content)

    def _kept(self) -> HTTPConnection | None:
        """A connection of an earlier request, which the server has not closed since."""
        while connection := self._taken():
            if connection.sock and not has_input(connection.sock):
                return connection
            connection.close()
        return None

    def _taken(self) -> HTTPConnection | None:
        try:
            return self._idle.get_nowait()
        except Empty:
            return None

    def _connection(self) -> HTTPConnection:
        if self._context:
            return HTTPSConnection(self._server.address, context=self._context)
        return HTTPConnection(self._server.address)

    def _arrays(self, answer: Answer, outputs: Sequence[str]) -> Arrays:
        length = answer.headers[LENGTH]
        try:
            result = http.InferenceServerClient.parse_response_body(
                answer.body, header_length=length and int(length)
            )
            return arrays(result, outputs)
        except InferenceError:
            raise
        except Exception:  # tritonclient's, of whatever it trips over
            told = f"{self._server.address} answers what is not Triton's"
            raise ServerFailure(f"{told}: {_words(answer.body)}") from None


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.root_certificates)
    if tls.certificate_chain:
        context.load_cert_chain(tls.certificate_chain, tls.private_key)
    return context


def _told(body: bytes) -> str:
    """The error's text: Triton's, or the first words of what stands in front of it."""
    try:
        return str(json.loads(body)["error"])
    except (KeyError, TypeError, ValueError):
        return _words(body)


def _words(body: bytes) -> str:
    return str(body[:200], "utf-8", "replace")
