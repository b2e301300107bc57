# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Requests over HTTP: tritonclient writes and reads their bodies.

It does not send them: its own connections belong to one thread, know no deadline of a call, and
wait 10 ms before each of several requests at once.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPSConnection
from queue import Empty, LifoQueue
from typing import Any, NamedTuple
from urllib.parse import quote

from tritonclient import http  # type: ignore[import-untyped]

from .batches import Arrays
from .deadline import Deadline
from .errors import InferenceError, Unavailable, failure
from .shared_memory import Region
from .tensors import MODEL
from .transport import Server, Tls, arrays, tensors, wanted

LENGTH = "Inference-Header-Content-Length"
CHUNK_BYTES = 1 << 20


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

    def infer(
        self,
        inputs: Arrays,
        outputs: Sequence[str],
        timeout_s: float,
        options: Mapping[str, Any],
        region: Region | None,
    ) -> Arrays:
        body, length = http.InferenceServerClient.generate_request_body(
            tensors(http, inputs, region), outputs=wanted(http, outputs), **options
        )
        headers = {} if length is None else {LENGTH: str(length)}
        answer = self._post(f"/v2/models/{quote(MODEL)}/infer", body, headers, timeout_s)
        length = answer.headers[LENGTH]
        result = http.InferenceServerClient.parse_response_body(
            answer.body, header_length=length and int(length)
        )
        return arrays(result, outputs)

    def ready(self, timeout_s: float) -> bool:
        try:
            answer = self._ask("GET", f"/v2/models/{quote(MODEL)}/ready", b"", {}, timeout_s)
        except InferenceError:
            return False
        return answer.status == 200

    def register(self, region: Region, timeout_s: float) -> None:
        body = json.dumps({"key": region.key, "offset": 0, "byte_size": region.size_bytes})
        path = f"/v2/systemsharedmemory/region/{region.name}/register"
        self._post(path, body.encode(), {}, timeout_s)

    def unregister(self, region: Region, timeout_s: float) -> None:
        path = f"/v2/systemsharedmemory/region/{region.name}/unregister"
        self._post(path, b"", {}, timeout_s)

    def close(self) -> None:
        while connection := self._taken():
            connection.close()

    def _post(self, path: str, body: bytes, headers: dict[str, str], timeout_s: float) -> Answer:
        answer = self._ask("POST", path, body, headers, timeout_s)
        if answer.status != 200:
            raise failure(_told(answer.body), str(answer.status))
        return answer

    def _ask(
        self, method: str, path: str, body: bytes, headers: dict[str, str], timeout_s: float
    ) -> Answer:
        deadline, kept = Deadline(timeout_s), self._taken()
        request = (method, self._server.path + path, body, self._headers | headers)
        try:
            if kept:
                try:
                    return self._exchange(kept, request, deadline)
                except ConnectionError:
                    pass  # the server has closed it meanwhile
            return self._exchange(self._connection(), request, deadline)
        except TimeoutError:
            raise deadline.exceeded() from None
        except (HTTPException, OSError) as error:
            told = str(error) or type(error).__name__
            raise Unavailable(f"{self._server.address}: {told}") from None

    def _exchange(
        self,
        connection: HTTPConnection,
        request: tuple[str, str, bytes, dict[str, str]],
        deadline: Deadline,
    ) -> Answer:
        method, path, body, headers = request
        try:
            connection.timeout = deadline.left()
            if connection.sock:
                connection.sock.settimeout(connection.timeout)
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            chunks = []
            while chunk := response.read(CHUNK_BYTES):
                chunks.append(chunk)
                if connection.sock:
                    connection.sock.settimeout(deadline.left())
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)
        return Answer(response.status, response.headers, b"".join(chunks))

    def _taken(self) -> HTTPConnection | None:
        try:
            return self._idle.get_nowait()
        except Empty:
            return None

    def _connection(self) -> HTTPConnection:
        if self._context:
            return HTTPSConnection(self._server.address, context=self._context)
        return HTTPConnection(self._server.address)


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
        return str(body[:200], "utf-8", "replace")
