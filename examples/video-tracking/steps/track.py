# Yours: written once, never touched by `make update`.
"""Step track: the faces in each frame of a sequence -> the same faces with a number over frames.

Tested without a server by tests/test_steps.py.
"""

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from step_types import TrackOutputs
from triton_step import Context, SequencePosition

Floats = NDArray[np.float32]

FORGOTTEN = 60  # seconds after which a sequence that broke off is dropped


@dataclass
class Face:
    """A face that was seen in a frame of the sequence, where it is now."""

    number: int
    box: Floats  # left, top, right, bottom in pixels
    score: float
    pace: Floats = field(default_factory=lambda: np.zeros(2, np.float32))  # pixels a frame, x and y
    trust: float = 1  # in the next move as a pace; then half, as boxes tremble
    missed: int = 0  # frames since it was seen

    def move(self) -> None:
        """Go on at the pace of before, as seen by nobody."""
        self.box = self.box + np.tile(self.pace, 2)
        self.missed, self.score = self.missed + 1, 0.0

    def meet(self, box: Floats, score: float) -> None:
        """Be where the detector sees it, and correct the pace by how far off it was."""
        off = (box - self.box).reshape(2, 2).mean(axis=0)
        self.pace = self.pace + self.trust * off / self.missed
        self.box, self.score, self.trust, self.missed = box, score, 0.5, 0


@dataclass
class Camera:
    """The faces of a sequence, and how many have had a number."""

    faces: list[Face] = field(default_factory=list)
    numbered: int = 0
    used: float = 0  # time.monotonic()

    def follow(self, boxes: Floats, scores: Floats, overlap: float) -> None:
        """Find the faces of the frame before in the next one, the best overlap first, and number the others."""
        for face in self.faces:
            face.move()
        shared = compare(np.array([face.box for face in self.faces]).reshape(-1, 4), boxes)
        is_new = np.ones(len(boxes), bool)
        while shared.max(initial=0) > overlap:
            known, seen = divmod(int(shared.argmax()), len(boxes))
            self.faces[known].meet(boxes[seen], scores[seen])
            shared[known] = shared[:, seen] = is_new[seen] = 0
        for box, score in zip(boxes[is_new], scores[is_new], strict=True):
            self.numbered += 1
            self.faces.append(Face(self.numbered, box, score))

    def drop(self, hold: int, edges: Floats) -> None:
        """Forget faces that were missed in more than `hold` frames, or have left the image."""
        inside = ((face, face.box.clip(0, edges)) for face in self.faces if face.missed <= hold)
        self.faces = [face for face, box in inside if (box[:2] < box[2:]).all()]


class Step:
    """SEEN FP32[1, seen, 4], CERTAINTY FP32[1, seen], FRAME FP32[1, 6] -> FACES FP32[1, faces, 4],
    NUMBER INT64[1, faces], SCORE FP32[1, faces].

    A face that is not among SEEN stays at its pace, with SCORE 0. Numbers begin with 1 in each sequence.

    Parameters: `overlap` is the intersection over union above which a box may be a face of the frame
    before. `hold` is the number of frames for which a missed face stays.
    """

    def __init__(self, context: Context) -> None:
        self.overlap = float(context.parameters["overlap"])
        self.hold = int(context.parameters["hold"])
        self.cameras: dict[int | str, Camera] = {}

    def __call__(
        self, position: SequencePosition, /, SEEN: Floats, CERTAINTY: Floats, FRAME: Floats
    ) -> TrackOutputs:
        if position.start:
            oldest = time.monotonic() - FORGOTTEN  # of those that broke off, Triton says nothing
            self.cameras = {id: each for id, each in self.cameras.items() if each.used > oldest}
            self.cameras[position.id] = Camera()
        camera, edges = self.cameras[position.id], np.tile(FRAME[0, 4:], 2)
        camera.used = time.monotonic()
        camera.follow(SEEN[0], CERTAINTY[0], self.overlap)
        camera.drop(self.hold, edges)
        if position.end:
            del self.cameras[position.id]
        boxes = np.array([face.box for face in camera.faces], np.float32).reshape(1, -1, 4)
        return {
            "FACES": boxes.clip(0, edges),
            "NUMBER": np.array([[face.number for face in camera.faces]], np.int64),
            "SCORE": np.array([[face.score for face in camera.faces]], np.float32),
        }


def compare(some: Floats, others: Floats) -> Floats:
    """Return the intersection over union of each box with each other one."""
    starts = np.maximum(some[:, None, :2], others[:, :2])
    ends = np.minimum(some[:, None, 2:], others[:, 2:])
    shared = (ends - starts).clip(0).prod(axis=2)
    area, other = ((boxes[:, 2:] - boxes[:, :2]).prod(axis=1) for boxes in (some, others))
    return shared / (area[:, None] + other - shared)
