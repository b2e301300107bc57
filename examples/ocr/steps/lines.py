# Yours: written once, never touched by `make update`.
"""Lines of text in an image: where PP-OCR's detector sees them, and what its other models are given of each.

The sizes, limits and their order are those of rapidocr-onnxruntime 1.4.4, so that both read the same.
"""

from math import ceil
from typing import Any, NamedTuple

import cv2
import numpy as np
import pyclipper  # type: ignore[import-untyped, unused-ignore]
from numpy.typing import NDArray

Image = NDArray[Any]  # UINT8[height, width, 3]: blue, green, red
Box = NDArray[np.float32]  # [4, 2]: x and y of its corners, clockwise from the top left

LONGEST, SHORTEST = 2000, 30  # sides of an image that is read as it is
DETECTED = 736  # the least side of what the detector is given
HEIGHT = 48  # of a line, as the other models are given it
MOST_LINES = 1000


class Page(NamedTuple):
    """An image as it is read: its size before, and the rows that were put on top of it."""

    image: Image
    size: tuple[int, int]
    top: int

    def original(self, boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return boxes, FP32[lines, 4, 2], in the pixels of the image that was sent."""
        height, width = self.image.shape[0] - 2 * self.top, self.image.shape[1]
        ratios = np.array(self.size) / (width, height)
        return ((boxes - (0, self.top)) * ratios).clip(0, self.size).astype(np.float32)


def fit(image: Image) -> Page:
    """Scale an image whose sides are too long or too short, and give a flat one a margin."""
    height, width = image.shape[:2]
    if max(height, width) > LONGEST:
        image = _scale(image, LONGEST / max(height, width))
    if min(image.shape[:2]) < SHORTEST:
        image = _scale(image, SHORTEST / min(image.shape[:2]))
    rows, columns = image.shape[:2]
    top = 0
    if rows <= SHORTEST or columns / rows > 8:
        top = (max(columns // 8, SHORTEST) * 2 - rows) // 2
        image = cv2.copyMakeBorder(image, top, top, 0, 0, cv2.BORDER_CONSTANT)
    return Page(image, (width, height), top)


def prepare(image: Image) -> NDArray[np.float32]:
    """Return what the detector is given: FP32[3, height, width]."""
    return _normalise(_scale(image, max(1.0, DETECTED / min(image.shape[:2]))))


def find(probabilities: NDArray[np.float32], image: Image) -> list[Box]:
    """Return the boxes of lines, from top to bottom, in the image's pixels; `probabilities` are the detector's."""
    mask = cv2.dilate((probabilities > 0.3).astype(np.uint8), np.ones((2, 2), np.uint8))
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    found = (_enclose(contour, probabilities) for contour in contours[:MOST_LINES])
    size, seen = (np.array(each.shape[1::-1], np.float32) for each in (image, probabilities))
    scaled = ((box / seen * size).round() for box in found if box is not None)
    boxes = [_clockwise(box).clip(0, size - 1) for box in scaled]
    return _sort([box for box in boxes if _sides(box)[[0, 3]].min() >= 4])


def cut(image: Image, box: Box) -> Image:
    """Return a line, straightened; one that stands is turned to lie."""
    sides = _sides(box)
    width, height = int(sides[::2].max()), int(sides[1::2].max())
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    line = cv2.warpPerspective(
        image,
        cv2.getPerspectiveTransform(box, corners),
        (width, height),
        borderMode=cv2.BORDER_REPLICATE,
        flags=cv2.INTER_CUBIC,
    )
    return np.rot90(line) if height / width >= 1.5 else line


def pad(lines: list[Image], width: int) -> NDArray[np.float32]:
    """Return lines scaled to HEIGHT, FP32[lines, 3, HEIGHT, width], with zeros on the right."""
    rows = np.zeros((len(lines), 3, HEIGHT, width), np.float32)
    for row, line in zip(rows, lines, strict=True):
        own = min(width, ceil(HEIGHT * ratio(line)))
        row[:, :, :own] = _normalise(cv2.resize(line, (own, HEIGHT)))
    return rows


def ratio(image: Image) -> float:
    """Return width by height."""
    return image.shape[1] / image.shape[0]


def _scale(image: Image, factor: float) -> Image:
    """Scale an image to sides that are multiples of 32, as the detector needs them."""
    height, width = (max(32, round(int(side * factor) / 32) * 32) for side in image.shape[:2])
    return cv2.resize(image, (width, height))


def _normalise(image: Image) -> NDArray[np.float32]:
    return (image.transpose(2, 0, 1).astype(np.float32) / 255 - 0.5) / 0.5


def _enclose(contour: NDArray[Any], probabilities: NDArray[np.float32]) -> Box | None:
    """Return the box around a contour, in its pixels and with a margin, or None if it is not text."""
    rectangle = cv2.minAreaRect(contour)
    if min(rectangle[1]) < 3:
        return None
    box = _clockwise(cv2.boxPoints(rectangle))
    if _score(box, probabilities) < 0.5:
        return None
    # The detector sees the core of a line. The margin is 1.6 times its area by its circumference.
    width, height = rectangle[1]
    offset = pyclipper.PyclipperOffset()
    offset.AddPath(box, pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
    expanded = np.array(offset.Execute(1.6 * width * height / (2 * (width + height))))
    rectangle = cv2.minAreaRect(expanded.reshape(-1, 1, 2))
    return None if min(rectangle[1]) < 5 else _clockwise(cv2.boxPoints(rectangle))


def _score(box: Box, probabilities: NDArray[np.float32]) -> float:
    """Return the mean probability in a box."""
    last = np.array(probabilities.shape[::-1]) - 1
    x, y = np.floor(box.min(axis=0)).clip(0, last).astype(int)
    right, bottom = np.ceil(box.max(axis=0)).clip(0, last).astype(int)
    mask = np.zeros((bottom - y + 1, right - x + 1), np.uint8)
    cv2.fillPoly(mask, [(box - (x, y)).astype(np.int32)], (1,))
    return float(cv2.mean(probabilities[y : bottom + 1, x : right + 1], mask)[0])


def _clockwise(corners: NDArray[Any]) -> Box:
    """Return the corners of a box from the top left on."""
    corners = corners[np.argsort(corners[:, 0], kind="stable")].astype(np.float32)
    left, right = (pair[np.argsort(pair[:, 1], kind="stable")] for pair in np.split(corners, 2))
    return np.array([left[0], right[0], right[1], left[1]])


def _sides(box: Box) -> NDArray[np.float32]:
    """Return the lengths of the sides: top, right, bottom, left."""
    lengths: NDArray[np.float32] = np.linalg.norm(box - np.roll(box, -1, axis=0), axis=1)
    return lengths


def _sort(boxes: list[Box]) -> list[Box]:
    """Return boxes from top to bottom; those of one height, within 10 pixels, from left to right."""
    order: list[Box] = []
    for box in sorted(boxes, key=lambda box: (box[0, 1], box[0, 0])):
        place = len(order)
        while place and _precedes(box[0], order[place - 1][0]):
            place -= 1
        order.insert(place, box)
    return order


def _precedes(corner: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    return bool(abs(corner[1] - other[1]) < 10 and corner[0] < other[0])
