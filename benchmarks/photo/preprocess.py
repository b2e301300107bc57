"""IMAGE STRING[batch, 1], JPEG files of 224 x 224 -> PIXELS FP32[batch, 3, 224, 224]."""

from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from step_types import PreprocessOutputs  # type: ignore[import-not-found, unused-ignore]
from triton_step import Context

SCALE = np.float32(1 / 127.5)


class Step:
    def __init__(self, context: Context) -> None: ...

    def __call__(self, IMAGE: NDArray[np.object_]) -> PreprocessOutputs:
        pixels = np.empty((len(IMAGE), 3, 224, 224), np.float32)
        for i, data in enumerate(IMAGE[:, 0]):
            image = np.asarray(Image.open(BytesIO(data)).convert("RGB"))
            np.multiply(image.transpose(2, 0, 1), SCALE, out=pixels[i])
        pixels -= 1
        return {"PIXELS": pixels}
