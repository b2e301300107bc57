"""Stand-in for Triton's TensorRT-LLM backend on this machine: its tensors and streams, and made-up tokens.

all_models/inflight_batcher_llm/tensorrt_llm/config.pbtxt declares the tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from triton_ensemble.serve.local.backends.python.local_backend import Arrays
    from triton_ensemble.serve.local.backends.python.local_generator import (
        Generator,
        chance,
        flag,
        number,
    )
else:
    from local_backend import Arrays
    from local_generator import Generator, chance, flag, number


class TritonPythonModel(Generator):
    """Serves any model of backend "tensorrtllm"."""

    backend, answers_with = "tensorrtllm", "output_ids"

    def pieces(self, inputs: Arrays) -> Iterator[Arrays]:
        """Yield all new tokens at once, or with `streaming` one by one: the prompt's tokens, in another order."""
        prompt = np.ravel(inputs["input_ids"]).tolist()
        count = number(inputs, "request_output_len", 1)
        tokens = chance(number(inputs, "seed", 0), prompt).choices(prompt or [0], k=count)
        for part in [[token] for token in tokens] if flag(inputs, "streaming") else [tokens]:
            yield self._outputs(part)

    def _outputs(self, tokens: list[int]) -> Arrays:
        """Return the tokens of one beam, in a batch of one if the model has batches. Other outputs are blank."""
        rows = (1,) * self.batches
        known = {
            "output_ids": np.array(tokens, np.int32).reshape(*rows, 1, -1),
            "sequence_length": np.full((*rows, 1), len(tokens), np.int32),
        }
        names = [spec["name"] for spec in self.config["output"]]
        return {name: known[name] if name in known else self._make_blank(name, 1) for name in names}
