"""The answer to a request that gets no outputs: a status, and one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from triton_ensemble.client import Package

MOST_ERRORS = 10  # that an answer tells


class Refusal(Exception):
    """A request is answered by `status` and `{"error": text}`, with other fields where they help."""

    def __init__(
        self, status: int, text: str, *, retry_after_s: int | None = None, **fields: object
    ) -> None:
        super().__init__(text)
        self.status = status
        self.content: dict[str, object] = {"error": text, **fields}
        self.headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}

    def body(self, request_id: str, *, as_openai: bool = False) -> bytes:
        """Return the JSON that answers the request of an id; OpenAI's clients show only their API's form."""
        content = self.content
        if as_openai:
            kind = "invalid_request_error" if self.status < 500 else "server_error"
            text = str(self)
            if "row" in content and not text.startswith("row "):
                text = f"row {content['row']}: {text}"
            content = {"error": {"message": text, "type": kind, "code": self.status}}
        return json.dumps({**content, "id": request_id}).encode()


def check_rows(count: int, most: int) -> None:
    """Raise Refusal 413 for a request of too many rows."""
    if count > most:
        raise Refusal(413, f"{count} rows; a request may have {most}")


def make_invalid(errors: Iterable[Mapping[str, Any]]) -> Refusal:
    """Return what the first errors of pydantic mean to the sender of the request."""
    lines = [
        f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg'].removeprefix('Value error, ')}"
        for one in islice(errors, MOST_ERRORS)
    ]
    return Refusal(422, "; ".join(lines))


def make_refusal(error: Exception, client: Package) -> Refusal:
    """Return what an InferenceError of the project's `client` means to the sender of the request.

    The text of a refused input is for people and passes. The text of a failure may tell what is inside, and does not.
    """
    if isinstance(error, client.InvalidInput):
        row = {} if error.row is None else {"row": error.row}
        return Refusal(400, str(error), **row)
    if isinstance(error, TimeoutError):
        return Refusal(504, "no answer in time; send fewer rows, or try again", retry_after_s=1)
    if isinstance(error, client.Unavailable):
        return Refusal(
            503, "the models can't be reached or are too busy; try again", retry_after_s=1
        )
    return Refusal(500, "the models failed at this request; the log says why, by its id")
