# Yours: written once, never touched by `make update`.
"""The steps of this pipeline alone, without a server."""

from functools import partial
from io import BytesIO
from itertools import count

import numpy as np
import pytest
from PIL import Image

from steps import track
from steps.blur import Step as Blur
from steps.track import Step as Track
from triton_step import Context, SequencePosition

WIDTH, HEIGHT, SIDE = 640, 480, 100  # of the image, and of a face
HOLD = 5
Found = list[
    dict[int, tuple[float, float]]
]  # of each frame, by number: the left side and the score


make_track = partial(Track, Context({"overlap": "0.2", "hold": str(HOLD)}))


def follow(step: Track, *frames: list[float], camera: int = 1, end: bool = True) -> Found:
    """Return the faces of each frame of a sequence, in which a detector sees them at these left sides."""
    answers = []
    for i, lefts in enumerate(frames):
        seen = np.array([[x, 100, x + SIDE, 100 + SIDE] for x in lefts], np.float32)
        answer = step(
            SequencePosition(camera, i == 0, end and i == len(frames) - 1),
            SEEN=seen.reshape(1, -1, 4),
            CERTAINTY=np.full((1, len(lefts)), 0.75, np.float32),
            FRAME=np.array([[0, 80, 640, 560, WIDTH, HEIGHT]], np.float32),
        )
        faces, scores = answer["FACES"][0, :, 0].tolist(), answer["SCORE"][0].tolist()
        found = zip(faces, scores, strict=True)
        answers.append(dict(zip(answer["NUMBER"][0].tolist(), found, strict=True)))
    return answers


def test_a_face_that_is_missed_goes_on_at_its_pace() -> None:
    answers = follow(make_track(), [100], [120], [140], [], [], [200])
    assert answers[2:] == [{1: (140, 0.75)}, {1: (160, 0)}, {1: (180, 0)}, {1: (200, 0.75)}]
    left = follow(make_track(), [500], [540], [580], [], [])  # the image, too
    assert left[3:] == [{1: (620, 0)}, {}]


def test_a_face_that_returns_late_has_another_number() -> None:
    away: list[list[float]] = [[]] * HOLD
    assert [*follow(make_track(), [100], *away, [100])[-1]] == [1]
    assert follow(make_track(), [100], *away, [], [100])[-2:] == [{}, {2: (100, 0.75)}]


@pytest.mark.parametrize("hidden", [range(0), range(9, 10), range(8, 12)])
def test_two_faces_that_cross_keep_their_numbers(hidden: range) -> None:
    """One goes to the right and the other to the left, which is behind and not seen in some frames."""
    right, left = [50.0 + 20 * i for i in range(20)], [430.5 - 20 * i for i in range(20)]
    pairs = enumerate(zip(right, left, strict=True))
    answers = follow(make_track(), *([x] if i in hidden else [x, other] for i, (x, other) in pairs))
    assert [answer[1][0] for answer in answers] == pytest.approx(right)
    assert [answer[2][0] for answer in answers] == pytest.approx(left)
    assert [i for i, answer in enumerate(answers) if not answer[2][1]] == [*hidden]


def test_cameras_are_apart_and_freed_at_their_end() -> None:
    step = make_track()
    follow(step, [100], [120], camera=1, end=False)
    assert [*follow(step, [100, 300], camera=2, end=False)[0]] == [1, 2]
    assert [*follow(step, [500], [520], camera=3)[1]] == [1]
    assert [*step.cameras] == [1, 2]
    # The first begins anew without having ended, and knows nothing of before.
    assert follow(step, [], [130], camera=1) == [{}, {1: (130, 0.75)}]
    assert [*step.cameras] == [2]


def test_a_sequence_that_breaks_off_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count(0, 40)
    monkeypatch.setattr(track.time, "monotonic", lambda: next(seconds))
    step = make_track()
    for camera in range(9):
        follow(step, [100], camera=camera, end=False)
    assert len(step.cameras) < 3


def test_boxes_are_blurred_with_a_margin_and_nothing_else() -> None:
    before = np.zeros((HEIGHT, WIDTH, 3))
    before[:, ::4], before[:, 1::4] = 255, 255
    Image.fromarray(before.astype(np.uint8)).save(file := BytesIO(), "PNG")
    boxes = np.array([[[200, 100, 300, 250], [600, 400, 640, 480], [9, 9, 9, 9]]], np.float32)
    answer = Blur(Context({"margin": "0.1"}))(IMAGE=np.array([[file.getvalue()]]), FACES=boxes)
    assert answer["BOX"] is boxes
    after = np.asarray(Image.open(BytesIO(answer["BLURRED"].item())), float)
    assert after[87:263, 192:308].std() < 20
    assert after[394:, 598:].std() < 20
    changed = np.abs(before - after).max(axis=2)
    changed[80:272, 184:316] = changed[384:, 584:] = 0  # with the blocks of the JPEG
    assert changed.max() < 60
