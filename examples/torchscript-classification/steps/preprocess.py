# Yours: written once, never touched by `make update`.
"""Step preprocess: a JPEG file -> the pixels that the classifier takes.

Tested without a server by tests/test_steps.py.
"""

from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from step_types import PreprocessOutputs
from triton_step import Context, InvalidRequest

SIZE = 32
MAX_PIXELS = 50_000_000  # a few kB of JPEG can unpack to gigabytes


class Step:
    """IMAGE STRING[batch, 1] -> PIXELS UINT8[batch, 3, 32, 32]: red, green, blue, 0 to 255.

    IMAGE holds the bytes of a JPEG file of any mode. It is turned upright (EXIF), its middle
    square is cut out and made smaller, with antialiasing. No image is made larger.

    Raises InvalidRequest for anything else, for an image of less than 32 pixels on a side, and for
    one of more than MAX_PIXELS.
    """

    def __init__(self, context: Context) -> None:
        """Called once, when the model loads. `context` has the step's parameters, directory, device
        and a logger; this step needs none of them."""

    def __call__(self, IMAGE: NDArray[np.object_]) -> PreprocessOutputs:
        squares = [_square(_decode(data, f"IMAGE, row {i}")) for i, data in enumerate(IMAGE[:, 0])]
        rows = np.array(squares, dtype=np.uint8).reshape(-1, SIZE, SIZE, 3)
        return {"PIXELS": np.ascontiguousarray(rows.transpose(0, 3, 1, 2))}


def _decode(data: bytes, where: str) -> Image.Image:
    try:
        image = Image.open(BytesIO(data), formats=("JPEG",))
        _check_size(image, where)
        # of a large image every second, fourth or eighth pixel is decoded, which takes less time
        image.draft("RGB", (4 * SIZE, 4 * SIZE))
        return ImageOps.exif_transpose(image).convert("RGB")
    except InvalidRequest:
        raise
    # Pillow's decoders also raise SyntaxError, ValueError, DecompressionBombError ...
    except Exception as error:
        raise InvalidRequest(
            f"{where}: its {len(data)} bytes are not a complete JPEG image; "
            "send the content of such a file, not its name or base64"
        ) from error


def _check_size(image: Image.Image, where: str) -> None:
    size = f"{where}: has {image.width} x {image.height} pixels"
    if min(image.size) < SIZE:
        raise InvalidRequest(f"{size}, and no image is made larger; send {SIZE} a side or more")
    if image.width * image.height > MAX_PIXELS:
        raise InvalidRequest(f"{size}; send a smaller image, of {MAX_PIXELS:,} at most")


def _square(image: Image.Image) -> NDArray[np.uint8]:
    """UINT8[32, 32, 3] of the middle square, as in training."""
    return np.asarray(ImageOps.fit(image, (SIZE, SIZE), Image.Resampling.BILINEAR))
