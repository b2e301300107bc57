# Yours: written once, never touched by `make update`.
"""Step read: an encoded image -> its lines of text, by the models detect, orient and recognise, which it calls.

Tested without a server by tests/test_steps.py.
"""

import asyncio
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from step_types import ReadOutputs
from steps import lines
from steps.images import decode
from triton_step import Context, InvalidRequest

WIDEST, TALLEST = 100, 20  # one side by the other; of such an image the detector sees a multiple
TOGETHER = 6  # lines that share a call of the recogniser, padded to the widest of them
LEAST_WIDTH = 320  # of what it is given
LEAST_SCORE = 0.5


class Line(NamedTuple):
    text: bytes
    box: lines.Box
    score: float


class Step:
    """IMAGE STRING[batch, 1] -> LINES INT32[batch, 1], TEXT STRING[batch, most],
    BOX FP32[batch, most, 4, 2], SCORE FP32[batch, most].

    IMAGE holds the bytes of a JPEG or PNG file. `most` is the greatest of LINES; a row that has
    fewer is filled with "" and zeros.

    Raises InvalidRequest, which names the row, for anything else and for an image that is too large.
    """

    def __init__(self, context: Context) -> None:
        self.calls = context.calls

    async def __call__(self, IMAGE: NDArray[np.object_]) -> ReadOutputs:
        pages = [lines.fit(read_image(data, row)) for row, data in enumerate(IMAGE[:, 0])]
        return tabulate(await asyncio.gather(*map(self._read, pages)))

    async def _read(self, page: lines.Page) -> list[Line]:
        answer = await self.calls.detect(x=lines.prepare(page.image)[None])
        boxes = lines.find(answer["sigmoid_0.tmp_0"][0, 0], page.image)
        cuts = [lines.cut(page.image, box) for box in boxes]
        # Neighbours in this order are of about the same width: little is padded.
        order = np.argsort([lines.ratio(cut) for cut in cuts])
        groups = [order[first : first + TOGETHER] for first in range(0, len(order), TOGETHER)]
        read = await asyncio.gather(
            *(self._recognise([cuts[i] for i in group]) for group in groups)
        )
        texts = dict(zip(order, (text for group in read for text in group), strict=True))
        places = page.original(np.array(boxes, np.float32).reshape(-1, 4, 2))
        found = [Line(texts[i][0], place, texts[i][1]) for i, place in enumerate(places)]
        return [line for line in found if line.score >= LEAST_SCORE]

    async def _recognise(self, cuts: list[lines.Image]) -> list[tuple[bytes, float]]:
        answer = await self.calls.orient(x=lines.pad(cuts, 192))
        turned = answer["save_infer_model/scale_0.tmp_1"][:, 1] > 0.9
        upright = [cut[::-1, ::-1] if turn else cut for cut, turn in zip(cuts, turned, strict=True)]
        width = max(LEAST_WIDTH, int(lines.HEIGHT * max(map(lines.ratio, cuts))))
        answer = await self.calls.recognise(x=lines.pad(upright, width))
        return [*map(join, answer["characters"], answer["scores"])]


def join(characters: NDArray[np.object_], scores: NDArray[np.float32]) -> tuple[bytes, float]:
    """Return a line's text and its score; a character that neighbouring columns see is one."""
    first = np.append(True, characters[1:] != characters[:-1]) & (characters != b"")
    return b"".join(characters[first]), float(scores[first].mean()) if first.any() else 0.0


def tabulate(pages: list[list[Line]]) -> ReadOutputs:
    """Return the lines of each image as tensors: rows of equal length."""
    counts = np.array([[len(page)] for page in pages], np.int32).reshape(-1, 1)
    shape = len(pages), counts.max(initial=0)
    texts = np.full(shape, b"", np.object_)
    boxes = np.zeros((*shape, 4, 2), np.float32)
    scores = np.zeros(shape, np.float32)
    for row, page in enumerate(pages):
        for column, line in enumerate(page):
            texts[row, column], boxes[row, column], scores[row, column] = line
    return {"LINES": counts, "TEXT": texts, "BOX": boxes, "SCORE": scores}


def read_image(data: bytes, row: int) -> lines.Image:
    image = decode(data, row)
    width, height = image.size
    if width > WIDEST * height or height > TALLEST * width:
        raise InvalidRequest(
            f"IMAGE, row {row}: is {width} x {height} pixels; send one that is at most {WIDEST} "
            f"times as wide as tall, and at most {TALLEST} times as tall as wide"
        )
    return np.asarray(image)[:, :, ::-1].copy()
