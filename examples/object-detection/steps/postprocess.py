# Yours: written once, never touched by `make update`.
"""Step postprocess: a detector's predictions -> the objects in an image, in its own pixels.

Tested without a server by tests/test_steps.py.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from step_types import PostprocessOutputs
from steps.detector import LABELS
from triton_step import Context

Floats = NDArray[np.float32]

CANDIDATES = 1000  # the best of an image, which are compared with each other
MOST = 300  # objects in an image


def read_yolov5(predictions: Floats) -> tuple[Floats, Floats]:
    """Return boxes and scores of FP32[places, 5 + classes]: a box, whether it has an object, and of which class."""
    return predictions[:, :4], predictions[:, 4:5] * predictions[:, 5:]


def read_yolov8(predictions: Floats) -> tuple[Floats, Floats]:
    """Return boxes and scores of FP32[4 + classes, places]."""
    return predictions[:4].T, predictions[4:].T


def read_yolo26(predictions: Floats) -> tuple[Floats, Floats]:
    """Return boxes and scores of FP32[most, 6]: left, top, right, bottom, a score and the number of its class."""
    if predictions.shape[1] != 6:
        raise ValueError(
            f"head yolo26 has 6 numbers an object, the detector {predictions.shape[1]}"
        )
    classes = predictions[:, 5]
    if wrong := [each for each in classes.tolist() if each not in range(len(LABELS))]:
        raise ValueError(f"the detector has a class {wrong[0]:g}, LABELS 0 to {len(LABELS) - 1}")
    start, end = predictions[:, :2], predictions[:, 2:4]
    scores = predictions[:, 4:5] * (classes[:, None] == np.arange(len(LABELS)))
    return np.concatenate([(start + end) / 2, end - start], axis=1), scores


def read_rf_detr(predictions: Floats) -> tuple[Floats, Floats]:
    """Return boxes and scores of FP32[queries, 4 + logits]. A logit beyond LABELS is the background's."""
    logits = predictions[:, 4:]
    logits = logits[:, : len(LABELS)] if logits.shape[1] == len(LABELS) + 1 else logits
    return predictions[:, :4], 1 / (1 + np.exp(-logits.clip(-80, 80)))


HEADS: dict[str, Callable[[Floats], tuple[Floats, Floats]]] = {
    "yolov5": read_yolov5,
    "yolov8": read_yolov8,
    "yolo26": read_yolo26,
    "rf-detr": read_rf_detr,
}
UNIQUE = {"yolo26", "rf-detr"}  # their detectors see an object once: nothing is left out


class Objects(NamedTuple):
    """The objects in an image, the best first."""

    labels: list[bytes]
    boxes: Floats
    scores: Floats


class Step:
    """PREDICTIONS FP32[batch, 4 + classes, places], FRAME FP32[batch, 6] -> OBJECTS INT32[batch, 1],
    LABEL STRING[batch, most], BOX FP32[batch, most, 4], SCORE FP32[batch, most].

    `most` is the greatest of OBJECTS; a row that has fewer is filled with "" and zeros.

    Parameters: `head`, how the detector writes its predictions, one of HEADS; `score`, above which
    a class is an object; `overlap`, by intersection over union, above which the lesser of two
    objects of a class is left out, except with a head of UNIQUE.
    """

    def __init__(self, context: Context) -> None:
        head = context.parameters["head"]
        if head not in HEADS:
            raise ValueError(f"parameters: head is {head}; write {' or '.join(HEADS)}")
        self.head, self.read = head, HEADS[head]
        self.score, overlap = (float(context.parameters[name]) for name in ("score", "overlap"))
        self.overlap = np.inf if head in UNIQUE else overlap

    def __call__(self, PREDICTIONS: Floats, FRAME: Floats) -> PostprocessOutputs:
        return tabulate([self._find(*row) for row in zip(PREDICTIONS, FRAME, strict=True)])

    def _find(self, predictions: Floats, frame: Floats) -> Objects:
        boxes, scores = self.read(predictions)
        if scores.shape[1] != len(LABELS):
            raise ValueError(f"the detector has {scores.shape[1]} classes, LABELS {len(LABELS)}")
        if scores.max(initial=0) > 1.01:  # rounded, a sure one may be above 1
            raise ValueError(
                f"a score is {scores.max():.1f}; write another head than {self.head} in parameters"
            )
        places, classes = np.nonzero(scores > self.score)
        found, scores = in_pixels(boxes[places], frame), scores[places, classes]
        best = suppress(found, scores, classes, self.overlap)
        return Objects([LABELS[i].encode() for i in classes[best]], found[best], scores[best])


def in_pixels(boxes: Floats, frame: Floats) -> Floats:
    """Return left, top, right and bottom in an image's pixels of x, y, width and height in PIXELS."""
    centres, halves = boxes[:, :2], boxes[:, 2:] / 2
    corners = np.stack([centres - halves, centres + halves], axis=1)
    scale = frame[4:] / (frame[2:4] - frame[:2])
    return ((corners - frame[:2]) * scale).clip(0, frame[4:]).reshape(-1, 4)


def suppress(boxes: Floats, scores: Floats, classes: NDArray[np.intp], overlap: float) -> list[int]:
    """Return which boxes to keep, the best first: of those of a class that overlap by more, the best alone."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    left = np.argsort(-scores, kind="stable")[:CANDIDATES]
    left = left[areas[left] > 0]  # what is beside the image has none
    kept: list[int] = []
    while len(left) and len(kept) < MOST:
        best, left = left[0], left[1:]
        kept.append(best)
        start = np.maximum(boxes[best, :2], boxes[left, :2])
        end = np.minimum(boxes[best, 2:], boxes[left, 2:])
        shared = (end - start).clip(0).prod(axis=1)
        is_same = shared > overlap * (areas[best] + areas[left] - shared)
        left = left[~(is_same & (classes[left] == classes[best]))]
    return kept


def tabulate(images: list[Objects]) -> PostprocessOutputs:
    """Return the objects of each image as tensors: rows of equal length."""
    counts = np.array([[len(image.labels)] for image in images], np.int32).reshape(-1, 1)
    shape = len(images), counts.max(initial=0)
    labels = np.full(shape, b"", np.object_)
    boxes = np.zeros((*shape, 4), np.float32)
    scores = np.zeros(shape, np.float32)
    for row, image in enumerate(images):
        count = len(image.labels)
        labels[row, :count], boxes[row, :count], scores[row, :count] = image
    return {"OBJECTS": counts, "LABEL": labels, "BOX": boxes, "SCORE": scores}
