"""NVIDIA's style: a loop over the requests, as in the examples of the Python backend."""

from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from work import compute  # type: ignore[import-not-found]


class TritonPythonModel:
    def execute(self, requests: list[Any]) -> list[Any]:
        responses = []
        for request in requests:
            in_0 = pb_utils.get_input_tensor_by_name(request, "IN")
            out_tensor_0 = pb_utils.Tensor("OUT", compute(in_0.as_numpy()))
            responses.append(pb_utils.InferenceResponse(output_tensors=[out_tensor_0]))
        return responses
