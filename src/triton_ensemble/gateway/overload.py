"""The refusal of requests that no place is left for, at the least cost: a service that is overloaded has nothing to spare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from triton_ensemble.gateway import observe
from triton_ensemble.gateway.admission import Admission

Headers = Iterable[tuple[bytes, bytes]]


class Overload:
    """What the protocol asks about each request to a path before the application sees it."""

    def __init__(self, admission: Admission, root_path: str, path: str) -> None:
        self._admission, self._path = admission, path
        self._urls = {path.encode(), (root_path + path).encode()}

    def takes(self, parser: Any, url: bytes, headers: Headers) -> bool:
        """Return whether a request is to be refused here; where a page of another origin asks, CORS has a say."""
        return (
            self._admission.is_full
            and parser.get_method() == b"POST"
            and url in self._urls
            and not any(name == b"origin" for name, _ in headers)
        )

    def refusal(self, request: Headers, more: Headers) -> bytes:
        """Return the answer to a request with these headers, with `more` of its own; it is counted and logged as all are."""
        refusal = self._admission.refusal()
        request_id = observe.id_of(dict(request).get(b"x-request-id", b"").decode("latin-1"))
        response = refusal.response(request_id)
        line = {"id": request_id, "method": "POST", "path": self._path, "status": 429}
        observe.record(self._path, 0.0, {**line, "bytes": len(response.body)})
        headers = [*response.raw_headers, (b"x-request-id", request_id.encode()), *more]
        lines = [name + b": " + value + b"\r\n" for name, value in headers]
        return b"".join([STATUS_LINE[429], *lines, b"\r\n", response.body])
