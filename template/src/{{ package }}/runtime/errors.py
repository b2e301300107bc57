# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The errors of a call, with the server's text if it answered."""

import re


class InferenceError(RuntimeError):
    """A call failed, or its client is closed.

    `rows` are the rows of the call that were in the failing request: all of a small call, or some of
    a call that was split. They are empty if the ensemble does not have a batch dimension.
    """

    def __init__(self, text: str, rows: range = range(0)) -> None:
        super().__init__(text)
        self.rows = rows

    @property
    def row(self) -> int | None:
        """The row of the call that failed, if a single row is to blame."""
        return self.rows.start if len(self.rows) == 1 else None


class InvalidInput(InferenceError, ValueError):
    """The request is wrong: the caller must change it. `row` is the first row that the server refuses."""


class Unavailable(InferenceError, ConnectionError):
    """The server does not answer, is too busy, or another client's request made this one fail; retries did not help."""


class DeadlineExceeded(InferenceError, TimeoutError):
    """No answer came within the time of the call."""


class ServerFailure(InferenceError):
    """The server failed, although the request may be right; its log says why."""


# By the status codes of HTTP and gRPC. 504 is from a proxy in front of the server. CANCELLED is from a server that
# shuts down: a client that cancels a call does not get a status.
KINDS: dict[type[InferenceError], str] = {
    InvalidInput: "400 413 INVALID_ARGUMENT OUT_OF_RANGE",
    Unavailable: "429 502 503 CANCELLED UNAVAILABLE",
    DeadlineExceeded: "504",
}

# The Python backend's error for a STRING that is shorter than its length says, which all requests of a batch get if
# one has it. This client does not send it. The other is of a Triton that shuts down, or has not loaded the model yet.
TRANSIENT = ("incomplete string data for inference input", "has no available versions")


def make_error(status: str | None, text: str | None) -> InferenceError:
    """Return the error of a status, such as `503` or `StatusCode.UNAVAILABLE`; ServerFailure for an unknown one."""
    if text and any(each in text for each in TRANSIENT):
        return Unavailable(text)
    code = (status or "").removeprefix("StatusCode.")
    kinds = (kind for kind, codes in KINDS.items() if code in codes.split())
    return next(kinds, ServerFailure)(text or f"the server's answer has status {code}")


def shift_rows(error: InferenceError, rows: range) -> InferenceError:
    """Return the same error for the `rows` of the call; "row 0" of a request of one row becomes the call's row."""
    text = str(error)
    if len(rows) == 1 and rows.start:
        text, named = re.subn(r"\brow 0\b", f"row {rows.start}", text)
        text = text if named else f"row {rows.start}: {text}"
    return type(error)(text, rows)
