# Yours: written once, never touched by `make update`.
"""The Python step alone, without a server."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from steps.preprocess import Step as Preprocess
from triton_step import Context, InvalidRequest

SAMPLES = Path(__file__).parents[1] / "samples"
SEVEN = (SAMPLES / "digit-7.jpg").read_bytes()


def preprocess(*images: bytes) -> NDArray[np.float32]:
    rows = np.array(images, dtype=np.object_).reshape(-1, 1)
    pixels: NDArray[np.float32] = Preprocess(Context())(IMAGE=rows)["PIXELS"]
    return pixels


def png(image: Image.Image) -> bytes:
    file = BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def test_pixels_are_ink() -> None:
    pixels = preprocess(png(Image.new("L", (8, 8), "white")), png(Image.new("L", (8, 8), "black")))
    assert pixels.dtype == np.float32
    np.testing.assert_array_equal(pixels, [[0] * 64, [1] * 64])


def test_each_pixel_is_the_mean_of_its_area() -> None:
    image = np.random.default_rng(0).integers(256, size=(80, 40), dtype=np.uint8)
    means = image.reshape(8, 10, 8, 5).mean(axis=(1, 3)).reshape(1, 64)
    np.testing.assert_allclose(preprocess(png(Image.fromarray(image))), 1 - means / 255, atol=0.005)


@pytest.mark.parametrize("data", [b"", b"digit-7.jpg", SEVEN[:-100], b"GIF89a"])
def test_what_is_no_image_is_refused(data: bytes) -> None:
    message = rf"IMAGE, row 1: its {len(data)} bytes are not a complete JPEG or PNG image; send"
    with pytest.raises(InvalidRequest, match=message):
        preprocess(SEVEN, data)


def test_a_batch_equals_its_rows_one_by_one() -> None:
    images = [path.read_bytes() for path in sorted(SAMPLES.glob("*.jpg"))]
    one_by_one = np.concatenate([preprocess(image) for image in images])
    np.testing.assert_array_equal(preprocess(*images), one_by_one)
