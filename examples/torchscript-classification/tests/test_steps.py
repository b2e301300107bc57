# Yours: written once, never touched by `make update`.
"""The Python steps alone, without a server."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from steps.preprocess import SIZE
from steps.preprocess import Step as Preprocess
from triton_step import Context, InvalidRequest

SAMPLES = Path(__file__).parents[1] / "samples"
SKY = (SAMPLES / "sky.jpg").read_bytes()
CLOSE = 3  # of 255: JPEG is lossy


def preprocess(*images: bytes) -> NDArray[np.uint8]:
    rows = np.array(images, dtype=np.object_).reshape(-1, 1)
    pixels: NDArray[np.uint8] = Preprocess(Context())(IMAGE=rows)["PIXELS"]
    assert pixels.shape == (len(images), 3, SIZE, SIZE)
    assert pixels.dtype == np.uint8
    return pixels


def jpeg(image: Image.Image, **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, "JPEG", quality=100, subsampling=0, **options)
    return file.getvalue()


def slope(width: int, height: int) -> Image.Image:
    """An image that is darker to the left, and more so to the top."""
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    return Image.fromarray(np.rint(85 * x + 170 * y).astype(np.uint8))


def assert_close(pixels: NDArray[np.uint8], others: NDArray[np.uint8]) -> None:
    assert np.abs(pixels.astype(int) - others).max() <= CLOSE


def test_channels_are_red_green_blue() -> None:
    pixels = preprocess(jpeg(Image.new("RGB", (40, 40), (200, 100, 50))))
    assert_close(pixels, np.full_like(pixels, [[[200]], [[100]], [[50]]]))


def test_rows_are_from_the_top() -> None:
    pixels = preprocess(jpeg(slope(64, 64)))[0, 0]
    assert pixels[0, -1] > pixels[0, 0] + 50
    assert pixels[-1, 0] > pixels[0, 0] + 100


@pytest.mark.parametrize("size", [(96, 64), (640, 427), (2000, 1500)])
def test_the_middle_square_is_made_smaller(size: tuple[int, int]) -> None:
    width, height = size
    left = (width - height) // 2
    middle = slope(*size).crop((left, 0, left + height, height))
    wanted = np.asarray(middle.resize((SIZE, SIZE), Image.Resampling.BILINEAR))
    pixels = preprocess(jpeg(slope(*size)))
    assert_close(pixels, np.broadcast_to(wanted, pixels.shape))


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_every_mode_becomes_red_green_blue(mode: str) -> None:
    image = slope(64, 64)
    assert_close(preprocess(jpeg(image.convert("RGB").convert(mode))), preprocess(jpeg(image)))


def test_a_photo_taken_sideways_is_turned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    sideways = jpeg(slope(96, 64).transpose(Image.Transpose.ROTATE_90), exif=exif)
    assert_close(preprocess(sideways), preprocess(jpeg(slope(96, 64))))


def test_an_image_of_the_right_size_is_left_alone() -> None:
    pixels = preprocess(jpeg(slope(SIZE, SIZE)))[0, 0]
    assert_close(pixels, np.asarray(slope(SIZE, SIZE)))


@pytest.mark.parametrize("size", [(31, 400), (400, 31)])
def test_no_image_is_made_larger(size: tuple[int, int]) -> None:
    width, height = size
    message = rf"IMAGE, row 1: has {width} x {height} pixels, and no image is made larger; send 32"
    with pytest.raises(InvalidRequest, match=message):
        preprocess(SKY, jpeg(slope(*size)))


@pytest.mark.parametrize("data", [b"", b"sky.jpg", SKY[:20], SKY[:-100], b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_jpeg_is_refused(data: bytes) -> None:
    message = rf"IMAGE, row 1: its {len(data)} bytes are not a complete JPEG image; send"
    with pytest.raises(InvalidRequest, match=message):
        preprocess(SKY, data)


def test_a_decompression_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steps.preprocess.MAX_PIXELS", 1000)
    with pytest.raises(InvalidRequest, match=r"IMAGE, row 0: .* send a smaller image, of 1,000 at"):
        preprocess(SKY)


def test_a_batch_equals_its_rows_one_by_one() -> None:
    images = [path.read_bytes() for path in sorted(SAMPLES.glob("*.jpg"))]
    one_by_one = np.concatenate([preprocess(image) for image in images])
    np.testing.assert_array_equal(preprocess(*images), one_by_one)


def test_no_rows() -> None:
    assert len(preprocess()) == 0
