# Yours: written once, never touched by `make update`.
"""Compares what is served with the model file in ONNX Runtime, which gets each text alone and unpadded."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.direct import embed, read_vectors, score
from triton_ensemble.testing.reference import *  # noqa: F403

TOLERANCES = {name: {"rtol": 0, "atol": 1e-5} for name in ("EMBEDDING", "SCORE")}


def pipeline(inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """Return the outputs that the ensemble must have for a sample."""
    texts = [read_vectors(text.decode()) for text in inputs["TEXT"][:, 0]]
    given = inputs["QUERY"][:, 0] if "QUERY" in inputs else [b""] * len(texts)
    queries = [read_vectors(query.decode()) for query in given]
    scores = [[score(query, text)] for query, text in zip(queries, texts, strict=True)]
    return {
        "EMBEDDING": np.stack([embed(text) for text in texts]),
        "SCORE": np.array(scores, np.float32),
    }
