# Yours: written once, never touched by `make update`.
"""The Python steps alone, without a server."""

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
TOLERANCE = 0.02  # JPEG is lossy


def preprocess(*images: bytes) -> NDArray[np.float32]:
    rows = np.array(images, dtype=np.object_).reshape(-1, 1)
    pixels: NDArray[np.float32] = Preprocess(Context())(IMAGE=rows)["PIXELS"]
    return pixels


def png(image: Image.Image, orientation: int = 1) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = BytesIO()
    image.save(file, "PNG", exif=exif)
    return file.getvalue()


def seven() -> Image.Image:
    return Image.open(SAMPLES / "digit-7.png")


def test_pixels_are_ink() -> None:
    pixels = preprocess(png(Image.new("L", (8, 8), "white")), png(Image.new("L", (8, 8), "black")))
    assert pixels.dtype == np.float32
    np.testing.assert_array_equal(pixels, [[0] * 64, [1] * 64])


def test_each_pixel_is_the_mean_of_its_area() -> None:
    image = np.random.default_rng(0).integers(256, size=(80, 40), dtype=np.uint8)
    means = image.reshape(8, 10, 8, 5).mean(axis=(1, 3)).reshape(1, 64)
    np.testing.assert_allclose(preprocess(png(Image.fromarray(image))), 1 - means / 255, atol=0.005)


def test_png_and_jpeg_agree() -> None:
    np.testing.assert_allclose(preprocess(png(seven())), preprocess(SEVEN), atol=TOLERANCE)


@pytest.mark.parametrize("mode", ["1", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_mode_gives_the_same_pixels(mode: str) -> None:
    checkers = Image.new("L", (8, 8), "black")
    checkers.paste("white", (4, 0, 8, 8))
    image = checkers.convert(mode)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(checkers).astype(np.uint16) * 257)
    np.testing.assert_array_equal(preprocess(png(image)), preprocess(png(checkers)))


def test_16_bits_are_scaled() -> None:
    gray = Image.fromarray(np.full((8, 8), 0x8000, dtype=np.uint16))
    np.testing.assert_allclose(preprocess(png(gray)), 0.5, atol=0.005)


def test_transparent_is_paper() -> None:
    image = seven()
    ink = Image.new("RGBA", image.size, "black")
    ink.putalpha(image.point(lambda shade: 255 - shade))
    np.testing.assert_allclose(preprocess(png(ink)), preprocess(png(image)), atol=TOLERANCE)


@pytest.mark.parametrize("mode", ["L", "RGBA"])
def test_a_photo_taken_sideways_is_turned_upright(mode: str) -> None:
    sideways = seven().convert(mode).transpose(Image.Transpose.ROTATE_90)
    upright = preprocess(png(sideways, orientation=6))
    np.testing.assert_array_equal(upright, preprocess(png(seven())))


@pytest.mark.parametrize("data", [b"", b"digit-7.jpg", SEVEN[:20], SEVEN[:-100], b"GIF89a"])
def test_what_is_no_image_is_refused(data: bytes) -> None:
    message = rf"IMAGE, row 1: its {len(data)} bytes are not a complete JPEG or PNG image; send"
    with pytest.raises(InvalidRequest, match=message):
        preprocess(SEVEN, data)


@pytest.mark.parametrize("limit", ["steps.images.MAX_PIXELS", "PIL.Image.MAX_IMAGE_PIXELS"])
def test_a_decompression_bomb_is_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, 100)
    with pytest.raises(InvalidRequest, match=r"IMAGE, row 0: more than .* pixels; send a smaller"):
        preprocess(SEVEN)


def test_a_batch_equals_its_rows_one_by_one() -> None:
    images = [(SAMPLES / f"digit-{digit}.jpg").read_bytes() for digit in (2, 6, 7)]
    one_by_one = np.concatenate([preprocess(image) for image in images])
    np.testing.assert_array_equal(preprocess(*images), one_by_one)


def test_no_rows() -> None:
    assert preprocess().shape == (0, 64)
