# Yours: written once, never touched by `make update`.
"""Step preprocess: an encoded image -> the 64 pixels that the classifier takes.

Tested without a server by tests/test_steps.py.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from step_types import PreprocessOutputs
from steps.images import decode
from triton_step import Context

SIZE = (8, 8)


class Step:
    """IMAGE STRING[batch, 1] -> PIXELS FP32[batch, 64].

    IMAGE holds the bytes of a JPEG or PNG file of any size and mode: dark ink on a light or
    transparent ground. PIXELS are the rows of an 8 x 8 image, one after the other: 0 is paper,
    1 is ink.

    Raises InvalidRequest for anything else, and for an image of more than MAX_PIXELS pixels.
    """

    def __init__(self, context: Context) -> None:
        """Called once, when the model loads. `context` has the step's parameters, directory, device
        and a logger; this step needs none of them."""

    def __call__(self, IMAGE: NDArray[np.object_]) -> PreprocessOutputs:
        shades = [_shrink(decode(data, row)) for row, data in enumerate(IMAGE[:, 0])]
        ink = 1 - np.array(shades, dtype=np.float32).reshape(-1, 64) / 255
        return {"PIXELS": ink}


def _shrink(image: Image.Image) -> NDArray[np.uint8]:
    """UINT8[8, 8], 0 black to 255 white: each pixel is the mean of its area, as in training."""
    return np.asarray(image.convert("L").resize(SIZE, Image.Resampling.BOX))
