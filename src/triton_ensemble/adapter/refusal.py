"""The error that a client gets for a request that failed, and the lines for the log."""

from __future__ import annotations

from collections.abc import Callable

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from triton_step import InvalidRequest

from .arrays import StepError
from .calls import NobodyWaitsError
from .context import printable
from .seams import Response, Tensor
from .user_step import Served, StepFailure


class EmptySlot(Exception):
    """No request at all: the direct sequence batcher fills slots without one with whatever memory holds."""


class MissingInput(InvalidRequest):
    """Raised for a missing input: if some inputs are optional, Triton only counts the inputs of a request."""


def refusal(
    step: Served, error: BaseException | None, find_row: Callable[[], int | None] = lambda: None
) -> Response:
    """Return the response to a request for which a step, or a step that shares its model, has raised an error."""
    if isinstance(error, EmptySlot):
        return answer([])
    if isinstance(error, StepFailure):
        step, error = error.step, error.__cause__
    if isinstance(error, NobodyWaitsError):
        return failure(f"step {step.name}: {error}", error.code)
    if isinstance(error, InvalidRequest):
        step.rejected.add()
        whose = "" if isinstance(error, MissingInput) else f"step {step.name}: "
        return failure(f"{whose}{error}", pb_utils.TritonError.INVALID_ARG)
    step.failed.add()
    row = None if isinstance(error, StepError) else find_row()
    failed = "failed" if row is None else f"failed at row {row}"
    # The text and the traceback may hold paths and data: they are for the log, not for clients.
    step.logger.error("step %s %s", step.name, failed, exc_info=error)
    text = f": {error}" if isinstance(error, StepError) else f" {failed}; the server's log says why"
    return failure(f"step {step.name}{text}", pb_utils.TritonError.INTERNAL)


def answer(tensors: list[Tensor]) -> Response:
    response: Response = pb_utils.InferenceResponse(tensors)
    return response


def failure(text: str, code: int) -> Response:
    error = pb_utils.TritonError(printable(text), code)
    response: Response = pb_utils.InferenceResponse(error=error)
    return response


def hide_foreign_paths(error: Exception) -> None:
    """Cut a traceback at the first path beyond ASCII, which kills the process when Triton reads it."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        if not trace.tb_next.tb_frame.f_code.co_filename.isascii():
            trace.tb_next = None
        trace = trace.tb_next
