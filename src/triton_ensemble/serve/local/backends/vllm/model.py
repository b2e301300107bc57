"""Stand-in for Triton's vLLM backend on this machine: its tensors and streams, and made-up words.

vllm_backend's src/model.py declares the tensors, and its src/utils/request.py has the refusals.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from triton_ensemble.serve.local.backends.python.local_backend import Arrays
    from triton_ensemble.serve.local.backends.python.local_generator import (
        WORDS,
        Generator,
        chance,
        flag,
    )
else:
    from local_backend import Arrays
    from local_generator import WORDS, Generator, chance, flag

MAX_TOKENS = 16  # vLLM's own default


class TritonPythonModel(Generator):
    """Serves any model of backend "vllm"."""

    backend, answers_with = "vllm", "text_output"

    def pieces(self, inputs: Arrays) -> Iterator[Arrays]:
        """Yield all words at once, or with `stream` each by itself."""
        prompt = np.ravel(inputs["text_input"])[0].decode()
        stream, bare = flag(inputs, "stream"), flag(inputs, "exclude_input_in_output")
        if stream and bare is False:
            raise ValueError("When streaming, `exclude_input_in_output` = False is not allowed.")
        parameters = _parameters(inputs)
        count = int(parameters.get("max_tokens", MAX_TOKENS))
        if count < 1:
            raise ValueError(f"max_tokens must be at least 1, got {count}.")
        words = [
            f" {word}" for word in chance(parameters.get("seed"), prompt).choices(WORDS, k=count)
        ]
        if stream:
            for count, word in enumerate(words, 1):
                yield self._outputs(word, 1, "length" if count == len(words) else "None")
        else:
            yield self._outputs("" if bare else prompt, len(words), "length", *words)

    def _outputs(self, text: str, count: int, reason: str, *more: str) -> Arrays:
        known = {
            "text_output": _texts("".join((text, *more))),
            "finish_reason": _texts(reason),
            "num_output_tokens": np.array([count], np.uint32),
        }
        return {name: array for name, array in known.items() if name in self.tensors}


def _parameters(inputs: Arrays) -> dict[str, Any]:
    if "sampling_parameters" not in inputs:
        return {}
    parameters = json.loads(np.ravel(inputs["sampling_parameters"])[0])
    if not isinstance(parameters, dict):
        raise ValueError("sampling_parameters is not a JSON object")
    return parameters


def _texts(text: str) -> NDArray[Any]:
    return np.array([text.encode()], np.object_)
