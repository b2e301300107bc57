"""STRING[1] -> STRING[1]: decoding, a little work and encoding, row by row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

INPUT, OUTPUT = "STRING[1]", "STRING[1]"


def compute(rows: NDArray[Any]) -> NDArray[Any]:
    texts = [data.decode().upper().encode() for data in rows[:, 0]]
    return np.array(texts, dtype=np.object_).reshape(-1, 1)
