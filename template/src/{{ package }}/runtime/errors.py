# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The errors of a call: one family, with the server's text where it answered."""


class InferenceError(RuntimeError):
    """A call failed, or its client is closed.

    `rows` are those of the call that were in the failing request: all of a small call, some of one
    that was split, none where the ensemble has no batch dimension.
    """

    def __init__(self, text: str, rows: range = range(0)) -> None:
        super().__init__(text)
        self.rows = rows

    @property
    def row(self) -> int | None:
        """The row of the call that failed, if it is known to be one."""
        return self.rows.start if len(self.rows) == 1 else None


class InvalidInput(InferenceError, ValueError):
    """The request is wrong: the caller must change it. `row` is the first row that is refused."""


class Unavailable(InferenceError, ConnectionError):
    """No server answers, it is too busy, or another client's request failed this one: tried again, in vain."""


class DeadlineExceeded(InferenceError, TimeoutError):
    """No answer came within the time of the call."""


class ServerFailure(InferenceError):
    """The server failed at a request that may be right; its log says why."""


# By the status of HTTP, and by that of gRPC.
KINDS: dict[str, type[InferenceError]] = {
    "400": InvalidInput,
    "413": InvalidInput,
    "502": Unavailable,
    "503": Unavailable,
    "504": DeadlineExceeded,  # from a proxy in front of the server
    "CANCELLED": Unavailable,  # by a server that ends: who cancels a call gets no status
    "INVALID_ARGUMENT": InvalidInput,
    "OUT_OF_RANGE": InvalidInput,
    "UNAVAILABLE": Unavailable,
}

# Triton's Python backend says so of a STRING that ends before its length, which no request of this
# client has, and says it to all requests that share a batch with that one.
OF_ANOTHER = "incomplete string data for inference input"
# Of a Triton that ends, or that has not loaded the model yet: not found, by its status.
NOT_LOADED = "has no available versions"


def of_status(status: str | None, text: str | None) -> InferenceError:
    """The error of a status, `503` or `StatusCode.UNAVAILABLE`; ServerFailure for any other."""
    if text and (OF_ANOTHER in text or NOT_LOADED in text):
        return Unavailable(text)
    code = (status or "").removeprefix("StatusCode.")
    return KINDS.get(code, ServerFailure)(text or f"the server's answer has status {code}")
