# Yours: written once, never touched by `make update`.
"""Crops of the two photographs that scikit-learn brings, with what each shows.

A part of each subject is to train on and another part of the same photograph is held out, so that
no pixel is in both. Nothing is downloaded.
"""

from functools import cache
from io import BytesIO
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_image  # type: ignore[import-untyped]

Box = tuple[int, int, int, int]  # left, top, right, bottom
SIDES = 48, 128  # of a crop, in pixels


class Subject(NamedTuple):
    """A label: its photograph, and the parts of it to train on and to hold out."""

    name: str
    photograph: str
    train: list[Box]
    held_out: list[Box]


SUBJECTS = [
    Subject("building", "china.jpg", [(125, 60, 300, 215)], [(85, 235, 340, 345)]),
    Subject("flower", "flower.jpg", [(180, 110, 310, 340)], [(310, 110, 440, 340)]),
    Subject("leaves", "flower.jpg", [(0, 0, 170, 427)], [(470, 0, 640, 380)]),
    Subject("sky", "china.jpg", [(330, 0, 640, 130)], [(0, 0, 95, 130)]),
    Subject(
        "tree",
        "china.jpg",
        [(335, 290, 570, 427), (20, 345, 110, 427)],
        [(110, 345, 200, 427), (575, 150, 640, 427)],
    ),
]


class Crops(NamedTuple):
    """Squares cut out of a photograph, and the index of the subject of each."""

    images: list[Image.Image]
    labels: NDArray[np.int64]


@cache
def split() -> tuple[Crops, Crops]:
    """The 1,000 crops to train on and the 500 held-out ones; always the same."""
    return _crops("train", 200), _crops("held_out", 100)


def encode(image: Image.Image) -> bytes:
    """A JPEG file."""
    file = BytesIO()
    image.save(file, "JPEG", quality=90)
    return file.getvalue()


def _crops(part: str, number: int) -> Crops:
    random = np.random.default_rng(0)
    images = []
    for subject in SUBJECTS:
        photograph = Image.fromarray(load_sample_image(subject.photograph))
        boxes = getattr(subject, part)
        images += [_crop(photograph, boxes[i % len(boxes)], random) for i in range(number)]
    return Crops(images, np.repeat(np.arange(len(SUBJECTS)), number))


def _crop(photograph: Image.Image, box: Box, random: np.random.Generator) -> Image.Image:
    left, top, right, bottom = box
    side = int(random.integers(SIDES[0], min(SIDES[1], right - left, bottom - top) + 1))
    x = int(random.integers(left, right - side + 1))
    y = int(random.integers(top, bottom - side + 1))
    return photograph.crop((x, y, x + side, y + side))
