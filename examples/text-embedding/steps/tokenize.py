# Yours: written once, never touched by `make update`.
"""Step tokenize: texts -> the token ids that the model takes, and which of them are padding.

Tested without a server by tests/test_steps.py.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from step_types import TokenizeOutputs
from triton_step import Context, pad_to_bucket, text

TOKENIZER = Path(__file__).with_suffix("") / "tokenizer.json"
# What texts are padded to. Triton puts requests of one length into a batch: few lengths, large batches.
LENGTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)


class Step:
    """TEXT STRING[batch, 1] -> TOKEN_IDS INT64[batch, length], MASK INT64[batch, length].

    `length` is the first of LENGTHS that the longest text of the call fits into. MASK is 1 for a
    token and 0 for padding. What is longer than the last of LENGTHS, in tokens, is cut off, as the
    model's authors do; `truncated_texts_total` of Triton's /metrics counts such texts.

    Raises InvalidRequest for what is not UTF-8.
    """

    def __init__(self, context: Context) -> None:
        self.tokenizer = Tokenizer.from_file(str(TOKENIZER))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(LENGTHS[-1])
        self.truncated = context.metrics.counter("truncated_texts_total", "Texts that were cut off")

    def __call__(self, TEXT: NDArray[np.object_]) -> TokenizeOutputs:
        texts = self.tokenizer.encode_batch([str(one) for one in text(TEXT)[:, 0]])
        self.truncated.add(sum(bool(one.overflowing) for one in texts))
        ids, mask = pad_to_bucket([one.ids for one in texts], LENGTHS, np.int64)
        return {"TOKEN_IDS": ids, "MASK": mask.astype(np.int64)}
