# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Copies INSIDE to OUTSIDE; config.pbtxt says why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]


class TritonPythonModel:
    """The identity."""

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        return [copied(request) for request in requests]


def copied(request: Any) -> Any:
    inside = pb_utils.get_input_tensor_by_name(request, "INSIDE").as_numpy()
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUTSIDE", inside)])
