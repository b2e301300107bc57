"""What a client is told of a request that was not answered, and what the log is told."""

from __future__ import annotations

from collections.abc import Callable

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from triton_step import InvalidRequest

from .arrays import StepError
from .calls import NobodyWaitsError
from .seams import Response, Tensor
from .user_step import Served, StepFailure


class EmptySlot(Exception):
    """No request at all: the direct sequence batcher fills slots without one with whatever memory holds."""


class MissingInput(InvalidRequest):
    """Where some inputs are optional, Triton counts those that came, and no more."""


def refusal(
    step: Served, error: BaseException | None, find_row: Callable[[], int | None] = lambda: None
) -> Response:
    """The response to a request that a step, or one of those that share its model, has raised an error for."""
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
    response: Response = pb_utils.InferenceResponse(error=pb_utils.TritonError(text, code))
    return response
