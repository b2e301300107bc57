# Yours: written once, never touched by `make update`.
"""The Python steps alone, without a server."""

import asyncio
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from step_types import ReadOutputs
from steps import lines
from steps.read import Step
from triton_step import Context, InvalidRequest

WORD = np.array([[b"", b"a", b"a", b"", b"a", b"b"]], np.object_)  # "aab"
SURE = np.array([[0.0, 0.9, 0.5, 0.0, 0.8, 0.7]], np.float32)


def encode(width: int, height: int, mode: str = "L", format: str = "PNG") -> bytes:
    file = BytesIO()
    Image.new(mode, (width, height), "white").save(file, format)
    return file.getvalue()


def draw(*rectangles: Any) -> NDArray[np.float32]:
    """Return what a detector says that sees texts in rectangles: centre, size and angle of each."""
    seen = np.zeros((320, 640), np.float32)
    for rectangle in rectangles:
        cv2.fillPoly(seen, [cv2.boxPoints(rectangle).astype(np.int32)], (0.9,))
    return seen


def read(*images: bytes, seen: NDArray[np.float32]) -> ReadOutputs:
    """Return the step's answer where the models see texts there, and each is WORD upside down."""

    async def detect(x: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
        return {"sigmoid_0.tmp_0": cv2.resize(seen, x.shape[:1:-1])[None, None]}

    async def orient(x: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
        return {"save_infer_model/scale_0.tmp_1": np.array([[0.05, 0.95]] * len(x))}

    async def recognise(x: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
        return {"characters": WORD.repeat(len(x), 0), "scores": SURE.repeat(len(x), 0)}

    calls = SimpleNamespace(detect=detect, orient=orient, recognise=recognise)
    rows = np.array(images, np.object_).reshape(-1, 1)
    return asyncio.run(Step(Context(calls=calls))(IMAGE=rows))


def test_a_box_is_around_the_text_with_a_margin() -> None:
    [box] = lines.find(draw(((320, 160), (200, 20), 0)), np.zeros((640, 1280, 3), np.uint8))
    margin = 1.6 * 200 * 20 / (2 * 220)
    left, top, right, bottom = 220 - margin, 150 - margin, 420 + margin, 170 + margin
    corners = [[left, top], [right, top], [right, bottom], [left, bottom]]
    np.testing.assert_allclose(box, 2 * np.array(corners), atol=5)


@pytest.mark.parametrize("angle", [-30, 0, 10, 80])
def test_a_line_is_cut_out_as_it_lies(angle: float) -> None:
    seen = draw(((320, 160), (200, 20), angle))
    image = (seen * 255).astype(np.uint8)[..., None].repeat(3, 2)
    [box] = lines.find(seen, image)
    line = lines.cut(image, box)
    assert lines.ratio(line) > 4
    assert line[line.shape[0] // 2].mean() > 150 > 20 > line[0].mean()


def test_lines_are_in_reading_order() -> None:
    places = [(500, 103), (100, 200), (100, 100)]
    image = np.zeros((320, 640, 3), np.uint8)
    found = lines.find(draw(*(((x, y), (150, 20), 0) for x, y in places)), image)
    assert [box[0].round(-2).tolist() for box in found] == [[0, 100], [400, 100], [0, 200]]


@pytest.mark.parametrize("sizes", [(640, 320), (4000, 2000), (300, 20), (20, 300), (1, 1)])
def test_an_image_of_any_size_is_read(sizes: tuple[int, int]) -> None:
    answer = read(encode(*sizes), seen=draw(((320, 160), (500, 60), 0)))
    assert (answer["BOX"] >= 0).all()
    assert (answer["BOX"] <= sizes).all()


def test_rows_have_the_length_of_the_longest() -> None:
    two = draw(((320, 80), (300, 30), 0), ((320, 240), (300, 30), 0))
    answer = read(encode(640, 320), encode(640, 320, "RGBA"), seen=two)
    assert answer["LINES"].tolist() == [[2], [2]]
    assert answer["TEXT"].tolist() == [[b"aab", b"aab"]] * 2
    np.testing.assert_allclose(answer["SCORE"], 0.8)
    assert read(encode(640, 320), seen=draw())["TEXT"].shape == (1, 0)
    assert read(seen=draw())["BOX"].shape == (0, 0, 4, 2)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (b"receipt.png", "its 11 bytes are not a complete JPEG or PNG image; send the content"),
        (encode(9, 9, format="GIF"), "are not a complete JPEG or PNG image"),
        (encode(5001, 5000, "1"), "more than 25,000,000 pixels; send a smaller image"),
        (encode(101, 1), "is 101 x 1 pixels; send one that is at most 100 times as wide as tall"),
        (encode(1, 21), "is 1 x 21 pixels; send one .* and at most 20 times as tall as wide"),
    ],
)
def test_what_cannot_be_read_is_refused(image: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=f"IMAGE, row 1: .*{said}"):
        read(encode(9, 9), image, seen=draw())
