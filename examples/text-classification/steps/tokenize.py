# Yours: written once, never touched by `make update`.
"""Step tokenize: a text -> the numbers of its words.

Tested without a server by tests/test_steps.py.
"""

import numpy as np
from numpy.typing import NDArray

from step_types import TokenizeOutputs
from steps.words import LENGTH, token_ids
from triton_step import Context, InvalidRequest, text


class Step:
    """TEXT STRING[batch, 1] -> TOKEN_IDS INT64[batch, 64], padded with 0.

    Of a text with more than 64 different words the first 64 count.
    Raises InvalidRequest for what is not UTF-8, and for a text without a word of letters a to z.
    """

    def __init__(self, context: Context) -> None:
        """Called once, when the model loads. `context` has the step's parameters, directory, device
        and a logger; this step needs none of them."""

    def __call__(self, TEXT: NDArray[np.object_]) -> TokenizeOutputs:
        ids = np.array([token_ids(str(line)) for line in text(TEXT)[:, 0]], dtype=np.int64)
        ids = ids.reshape(-1, LENGTH)
        if empty := np.flatnonzero(ids[:, 0] == 0).tolist():
            raise InvalidRequest(f"TEXT, row {empty[0]}: has no word; send a sentence in English")
        return {"TOKEN_IDS": ids}
