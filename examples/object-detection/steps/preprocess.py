# Yours: written once, never touched by `make update`.
"""Step preprocess: an encoded image -> what the detector takes, and where in it the image is.

Tested without a server by tests/test_steps.py.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from step_types import PreprocessOutputs
from steps.detector import HEIGHT, WIDTH
from steps.images import decode
from triton_step import Context

GREY = 114  # of what is around the image

Frame = tuple[int, int, int, int, int, int]


class Step:
    """IMAGE STRING[batch, 1] -> PIXELS FP32[batch, 3, HEIGHT, WIDTH], FRAME FP32[batch, 6].

    IMAGE holds the bytes of a JPEG or PNG file. PIXELS are red, green and blue, 0 to 1.

    Parameter `fit`, one of FITS: letterbox keeps the image's proportions, as YOLO models are
    trained, stretch fills PIXELS with it, as RF-DETR is.

    Raises InvalidRequest, which names the row, for anything else and for an image that is too large.
    """

    def __init__(self, context: Context) -> None:
        fit = context.parameters.get("fit", "letterbox")
        if fit not in FITS:
            raise ValueError(f"parameters: fit is {fit}; write {' or '.join(FITS)}")
        self.fit = FITS[fit]

    def __call__(self, IMAGE: NDArray[np.object_]) -> PreprocessOutputs:
        pixels = np.empty((len(IMAGE), 3, HEIGHT, WIDTH), np.float32)
        frames = np.empty((len(IMAGE), 6), np.float32)
        for row, data in enumerate(IMAGE[:, 0]):
            fitted, frames[row] = self.fit(decode(data, row))
            pixels[row] = np.asarray(fitted).transpose(2, 0, 1)
        return {"PIXELS": pixels / 255, "FRAME": frames}


def letterbox(image: Image.Image) -> tuple[Image.Image, Frame]:
    """Return an image of WIDTH x HEIGHT with another in its middle, scaled to fit, and its frame.

    The frame is left, top, right and bottom of the other image in it, and width and height of that.
    """
    scale = min(WIDTH / image.width, HEIGHT / image.height)
    width, height = (max(1, round(side * scale)) for side in image.size)
    left, top = (WIDTH - width) // 2, (HEIGHT - height) // 2
    fitted = Image.new("RGB", (WIDTH, HEIGHT), (GREY, GREY, GREY))
    fitted.paste(scale_to((width, height), image), (left, top))
    return fitted, (left, top, left + width, top + height, *image.size)


def stretch(image: Image.Image) -> tuple[Image.Image, Frame]:
    """Return an image scaled to WIDTH x HEIGHT, whatever its proportions, and its frame."""
    return scale_to((WIDTH, HEIGHT), image), (0, 0, WIDTH, HEIGHT, *image.size)


def scale_to(size: tuple[int, int], image: Image.Image) -> Image.Image:
    """Scale as OpenCV's INTER_LINEAR, with which detectors are trained: no mean of the pixels between."""
    whole = (0, 0, *image.size)
    return image.transform(size, Image.Transform.EXTENT, whole, Image.Resampling.BILINEAR)


FITS = {"letterbox": letterbox, "stretch": stretch}
