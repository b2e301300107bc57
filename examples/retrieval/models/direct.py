# Yours: written once, never touched by `make update`.
"""The model without a server, for tests: one text at a time, unpadded, in ONNX Runtime."""

from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]
from numpy.typing import NDArray
from tokenizers import Tokenizer

from steps.tokenize import LENGTHS, TOKENIZER

MODEL = Path(__file__).parents[1] / "model_repository/embed/1/model.onnx"


def read_vectors(text: str) -> NDArray[np.float32]:
    """Return the vectors of a text's tokens, FP32[length, 384]."""
    tokenizer, session = _open()
    ids = np.array([tokenizer.encode(text).ids])
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    [[vectors]] = session.run(None, inputs)
    return np.asarray(vectors)


def embed(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the text's vector, FP32[384], of length 1."""
    mean = vectors.mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def score(query: NDArray[np.float32], text: NDArray[np.float32]) -> float:
    """Return the mean, over the tokens of the query, of the cosine to the nearest token of the text."""
    query, text = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (query, text))
    return float((query @ text.T).max(axis=1).mean())


@cache
def _open() -> tuple[Tokenizer, ort.InferenceSession]:
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LENGTHS[-1])
    return tokenizer, ort.InferenceSession(MODEL)
