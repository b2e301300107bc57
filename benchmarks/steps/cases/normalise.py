"""UINT8[224, 224, 3] -> FP32[3, 224, 224]: an image as a network takes it; much memory for each row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

INPUT, OUTPUT = "UINT8[224, 224, 3]", "FP32[3, 224, 224]"

MEAN = np.array([0.485, 0.456, 0.406], np.float32).reshape(3, 1, 1) * 255
SCALE = 1 / (np.array([0.229, 0.224, 0.225], np.float32).reshape(3, 1, 1) * 255)


def compute(rows: NDArray[Any]) -> NDArray[Any]:
    pixels = rows.transpose(0, 3, 1, 2).astype(np.float32, order="C")
    pixels -= MEAN
    pixels *= SCALE
    return pixels
