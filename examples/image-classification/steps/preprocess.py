# Yours: written once, never touched by `make update`.
"""Step preprocess: an encoded image -> the 64 pixels that the classifier takes.

Tested without a server by tests/test_steps.py.
"""

from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from step_types import PreprocessOutputs
from triton_step import Context, InvalidRequest

SIZE = (8, 8)
MAX_PIXELS = 25_000_000  # a few kB of PNG can unpack to gigabytes


class Step:
    """IMAGE STRING[batch, 1] -> PIXELS FP32[batch, 64].

    IMAGE holds the bytes of a JPEG or PNG file of any size and mode: dark ink on a light or
    transparent ground. PIXELS are the rows of an 8 x 8 image, one after the other: 0 is paper,
    1 is ink.

    Raises InvalidRequest for anything else, and for an image of more than MAX_PIXELS.
    """

    def __init__(self, context: Context) -> None:
        """Called once, when the model loads. `context` has the step's parameters, directory, device
        and a logger; this step needs none of them."""

    def __call__(self, IMAGE: NDArray[np.object_]) -> PreprocessOutputs:
        shades = [_shrink(_decode(data, row)) for row, data in enumerate(IMAGE[:, 0])]
        ink = 1 - np.array(shades, dtype=np.float32).reshape(-1, 64) / 255
        return {"PIXELS": ink}


def _decode(data: bytes, row: int) -> Image.Image:
    try:
        return ImageOps.exif_transpose(_open(data))
    except Image.DecompressionBombError as error:
        raise InvalidRequest(
            f"IMAGE, row {row}: more than {MAX_PIXELS:,} pixels; send a smaller image"
        ) from error
    # Pillow's decoders also raise SyntaxError, ValueError, AssertionError ...
    except Exception as error:
        raise InvalidRequest(
            f"IMAGE, row {row}: its {len(data)} bytes are not a complete JPEG or PNG image; "
            "send the content of such a file, not its name or base64"
        ) from error


def _open(data: bytes) -> Image.Image:
    image = Image.open(BytesIO(data), formats=("JPEG", "PNG"))
    if image.width * image.height > MAX_PIXELS:
        raise Image.DecompressionBombError
    return image


def _shrink(image: Image.Image) -> NDArray[np.uint8]:
    """UINT8[8, 8], 0 black to 255 white: each pixel is the mean of its area, as in training."""
    return np.asarray(_gray(image).resize(SIZE, Image.Resampling.BOX))


def _gray(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits, which convert() would clip instead of scale
        image = image.point(lambda shade: shade / 256)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("L")
