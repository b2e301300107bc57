# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The errors of a call, with the server's text if it answered."""


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


# By the status code of HTTP or gRPC.
KINDS: dict[str, type[InferenceError]] = {
    "400": InvalidInput,
    "413": InvalidInput,
    "429": Unavailable,
    "502": Unavailable,
    "503": Unavailable,
    "504": DeadlineExceeded,  # from a proxy in front of the server
    "CANCELLED": Unavailable,  # from a server that shuts down: a client that cancels a call does not get a status
    "INVALID_ARGUMENT": InvalidInput,
    "OUT_OF_RANGE": InvalidInput,
    "UNAVAILABLE": Unavailable,
}

# The error of Triton's Python backend for a STRING that is shorter than its length says. This client never
# sends such a STRING, but all requests that share a batch with it get the error.
OF_ANOTHER = "incomplete string data for inference input"
# The error of a Triton that shuts down, or that has not loaded the model yet. Its status is "not found".
NOT_LOADED = "has no available versions"


def make_error(status: str | None, text: str | None) -> InferenceError:
    """Return the error of a status, such as `503` or `StatusCode.UNAVAILABLE`; ServerFailure for an unknown one."""
    if text and (OF_ANOTHER in text or NOT_LOADED in text):
        return Unavailable(text)
    code = (status or "").removeprefix("StatusCode.")
    return KINDS.get(code, ServerFailure)(text or f"the server's answer has status {code}")
