# Yours: written once, never touched by `make update`.
"""Step blur: a frame and the boxes in it -> the frame as a JPEG, blurred where they are.

Tested without a server by tests/test_steps.py.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from step_types import BlurOutputs
from steps.images import decode
from triton_step import Context

CELLS = 6  # of a face from side to side, each with the mean of its pixels: no sharpening brings back more
QUALITY = 90  # of the JPEG, in percent


class Step:
    """IMAGE STRING[batch, 1], FACES FP32[batch, faces, 4] -> BOX FP32[batch, faces, 4], BLURRED STRING[batch, 1].

    FACES has left, top, right and bottom in pixels, and BOX is the same. BLURRED holds the bytes of
    JPEG files without metadata.

    Parameters: `margin`, of a box's width and height, that is blurred on each side beyond it.
    """

    def __init__(self, context: Context) -> None:
        self.margin = float(context.parameters["margin"])

    def __call__(self, IMAGE: NDArray[np.object_], FACES: NDArray[np.float32]) -> BlurOutputs:
        blurred = np.empty((len(IMAGE), 1), np.object_)
        for row, data in enumerate(IMAGE[:, 0]):
            pixels = np.array(decode(data, row))[..., ::-1].copy()  # OpenCV has blue first
            sizes = np.tile(FACES[row, :, 2:] - FACES[row, :, :2], 2) * self.margin
            for box in (FACES[row] + sizes * [-1, -1, 1, 1]).round().astype(int).clip(0):
                hide(pixels, *box)
            options = [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
            blurred[row, 0] = cv2.imencode(".jpg", pixels, options)[1].tobytes()
        return {"BOX": FACES, "BLURRED": blurred}


def hide(pixels: NDArray[np.uint8], left: int, top: int, right: int, bottom: int) -> None:
    """Leave of what is inside a box CELLS x CELLS means, and colours between them."""
    part = pixels[top:bottom, left:right]
    if part.size:
        cells = cv2.resize(part, (CELLS, CELLS), interpolation=cv2.INTER_AREA)
        part[:] = cv2.resize(cells, part.shape[1::-1], interpolation=cv2.INTER_LINEAR)
