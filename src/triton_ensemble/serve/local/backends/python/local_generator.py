"""Stand-ins for backends of language models: what they answer is made up, by the request and its seed.

They have the tensors, the streams and the refusals of NVIDIA's backends, and no model.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from triton_ensemble.serve.local.backends.python.local_backend import Arrays
    from triton_ensemble.serve.local.backends.python.local_stand_in import StandIn
else:
    from local_backend import Arrays
    from local_stand_in import StandIn

WORDS = [
    "a",
    "all",
    "by",
    "it",
    "made",
    "model",
    "no",
    "of",
    "one",
    "the",
    "this",
    "up",
    "was",
    "with",
]


class Generator(StandIn):
    """A stand-in that answers a request once, or piece by piece.

    A model without the tensor `answers_with` is answered with zeros, as by any stand-in.
    """

    answers_with = ""

    def load(self, file: Path) -> None:
        """Log what this stand-in does."""
        if self.answers_with in self.tensors:
            self.does = "makes up words by the seed, there is no model"
        super().load(file)

    @abstractmethod
    def pieces(self, inputs: Arrays) -> Iterator[Arrays]:
        """Yield the outputs of each response to a request, or raise ValueError for an input that is wrong."""

    def execute(self, requests: Sequence[Any]) -> list[Any] | None:
        """Answer each request by itself."""
        if self.answers_with not in self.tensors:
            return super().execute(requests)
        if not self.decoupled:
            return [next(self._list_responses(request)) for request in requests]
        for request in requests:
            sender = request.get_response_sender()
            for response in self._list_responses(request):
                if sender.is_cancelled():
                    break
                sender.send(response)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None

    def _list_responses(self, request: Any) -> Iterator[Any]:
        wanted = request.requested_output_names()
        try:
            inputs = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
            for outputs in self.pieces(inputs):
                tensors = [pb_utils.Tensor(n, a) for n, a in outputs.items() if n in wanted]
                yield pb_utils.InferenceResponse(tensors)
        except Exception as error:
            yield self._failure(error)


def chance(seed: object, prompt: object) -> random.Random:
    """Return what makes up an answer: the same for the same seed and prompt."""
    return random.Random(f"{seed}:{prompt}")


def flag(inputs: Mapping[str, Any], name: str) -> bool | None:
    """Return an input of one flag, or None if a request leaves it out."""
    return bool(np.ravel(inputs[name])[0]) if name in inputs else None


def number(inputs: Mapping[str, Any], name: str, default: int) -> int:
    """Return an input of one whole number."""
    return int(np.ravel(inputs[name])[0]) if name in inputs else default
