# Yours: written once, never touched by `make update`.
"""The Python steps alone, without a server."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from step_types import PostprocessOutputs
from steps.detector import HEIGHT, WIDTH
from steps.postprocess import CANDIDATES, MOST
from steps.postprocess import Step as Postprocess
from steps.preprocess import Step as Preprocess
from steps.preprocess import letterbox
from triton_step import Context, InvalidRequest

WHOLE = (0, 0, 608, 800, 608, 800)  # the frame of an image that fits as it is
LABELS = ("text", "title", "figure", *map(str, range(7)))
Found = list[tuple[str, list[float], float]]


@pytest.fixture(autouse=True)
def labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """These classes, whatever detector the project has."""
    monkeypatch.setattr("steps.postprocess.LABELS", LABELS)


def encode(width: int, height: int, mode: str = "RGB", format: str = "PNG") -> bytes:
    file = BytesIO()
    Image.new(mode, (width, height), "red" if mode == "RGB" else 1).save(file, format)
    return file.getvalue()


def predict(*objects: tuple[Sequence[float], int, float]) -> NDArray[np.float32]:
    """Return what a YOLOv8 says that sees objects: x, y, width and height, class and score of each."""
    predictions = np.zeros((1, 4 + len(LABELS), 20), np.float32)
    for place, (box, kind, score) in enumerate(objects):
        predictions[0, :4, place], predictions[0, 4 + kind, place] = box, score
    return predictions


def postprocess(
    predictions: NDArray[np.float32], *frames: tuple[float, ...], head: str = "yolov8"
) -> PostprocessOutputs:
    step = Postprocess(Context({"head": head, "score": "0.5", "overlap": "0.5"}))
    rows = np.array(frames or [WHOLE] * len(predictions), np.float32)
    return step(PREDICTIONS=predictions, FRAME=rows)


def read(answer: PostprocessOutputs, row: int = 0) -> Found:
    count = answer["OBJECTS"][row, 0]
    labels = [label.decode() for label in answer["LABEL"][row, :count]]
    boxes, scores = (answer[name][row, :count].tolist() for name in ("BOX", "SCORE"))
    return [*zip(labels, boxes, scores, strict=True)]


def suppress_by_pairs(boxes: NDArray[Any], scores: NDArray[Any]) -> list[tuple[int, int]]:
    """Return place and class of what non-maximum suppression keeps, one pair of boxes after the other."""
    corners = [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for x, y, w, h in boxes.tolist()]

    def overlap(one: int, other: int) -> float:
        a, b = corners[one], corners[other]
        width = max(0, min(a[2], b[2]) - max(a[0], b[0]))
        height = max(0, min(a[3], b[3]) - max(a[1], b[1]))
        both = sum((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b))
        return width * height / (both - width * height)

    candidates = np.argwhere(scores > 0.5).tolist()
    best = sorted(candidates, key=lambda each: -scores[tuple(each)])[:CANDIDATES]
    kept: list[tuple[int, int]] = []
    for place, kind in best:
        if all(kind != other or overlap(place, seen) <= 0.5 for seen, other in kept):
            kept.append((place, kind))
    return kept


@pytest.mark.parametrize(
    "size", [(608, 800), (1216, 1600), (100, 30), (30, 100), (1, 1), (5000, 1), (1, 5000), (33, 77)]
)
def test_an_image_of_any_size_is_in_the_middle_and_its_box_is_its_own(
    size: tuple[int, int],
) -> None:
    answer = Preprocess(Context())(IMAGE=np.array([[encode(*size)]], np.object_))
    left, top, right, bottom = answer["FRAME"][0, :4].astype(int)
    assert (left + right, top + bottom) == pytest.approx((WIDTH, HEIGHT), abs=1)
    assert right - left == WIDTH or bottom - top == HEIGHT
    pixels = answer["PIXELS"][0]
    image = pixels[:, top:bottom, left:right]
    assert (image == np.array([1, 0, 0]).reshape(3, 1, 1)).all()
    assert np.count_nonzero(pixels == np.float32(114 / 255)) == pixels.size - image.size
    centre = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
    [(_, box, _)] = read(postprocess(predict((centre, 0, 0.9)), answer["FRAME"][0]))
    assert box == pytest.approx([0, 0, *size], rel=1e-5)


def test_a_stretched_image_fills_the_pixels_and_its_box_is_its_own() -> None:
    image = np.array([[encode(100, 30)]], np.object_)
    answer = Preprocess(Context({"fit": "stretch"}))(IMAGE=image)
    assert (answer["PIXELS"][0] == np.array([1, 0, 0]).reshape(3, 1, 1)).all()
    assert answer["FRAME"].tolist() == [[0, 0, WIDTH, HEIGHT, 100, 30]]
    with pytest.raises(ValueError, match="fit is crop; write letterbox or stretch"):
        Preprocess(Context({"fit": "crop"}))


def test_pixels_are_not_averaged() -> None:
    """Each fourth column is sampled between its second and its third pixel, as by OpenCV."""
    columns = np.tile(np.array([0, 100, 200, 0], np.uint8), WIDTH)
    image = Image.fromarray(columns[None].repeat(HEIGHT * 4, 0)).convert("RGB")
    fitted, frame = letterbox(image)
    assert frame == (0, 0, WIDTH, HEIGHT, WIDTH * 4, HEIGHT * 4)
    assert np.unique(np.asarray(fitted)).tolist() == [150]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("head", ["yolov5", "yolov8"])
def test_objects_are_those_that_a_plain_suppression_keeps(head: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    centres, sizes = random.uniform(100, 500, (400, 2)), random.uniform(20, 200, (400, 2))
    boxes = np.concatenate([centres, sizes], 1).astype(np.float32)
    certainty = random.uniform(0, 1, (400, 1)).astype(np.float32)
    classes = random.uniform(0, 1, (400, len(LABELS))).astype(np.float32)
    if head == "yolov5":
        predictions, scores = np.concatenate([boxes, certainty, classes], 1), certainty * classes
    else:
        predictions, scores = np.concatenate([boxes, classes], 1).T, classes
    kept = suppress_by_pairs(boxes, scores)[:MOST]
    objects = read(postprocess(predictions[None], head=head))
    assert [label for label, _, _ in objects] == [LABELS[kind] for _, kind in kept]
    assert [score for _, _, score in objects] == [scores[each] for each in kept]
    assert len(kept) > 20


@pytest.mark.parametrize("logits", [len(LABELS), len(LABELS) + 1])
def test_heads_without_suppression_keep_each_object_the_best_first(logits: int) -> None:
    seen = [([100, 100, 40, 20], 2, 0.75), ([101, 100, 40, 20], 2, 0.875), ([9, 9, 2, 2], 0, 0.25)]
    yolo26, rf_detr = np.zeros((1, 20, 6), np.float32), np.full((1, 9, 4 + logits), -9, np.float32)
    rf_detr[:, :, -1:] = 9 if logits > len(LABELS) else -9  # the background's
    for row, ((x, y, w, h), kind, score) in enumerate(seen):
        yolo26[0, row] = x - w / 2, y - h / 2, x + w / 2, y + h / 2, score, kind
        rf_detr[0, row, :4], rf_detr[0, row, 4 + kind] = (x, y, w, h), np.log(score / (1 - score))
    for head, predictions in (("yolo26", yolo26), ("rf-detr", rf_detr)):
        objects = read(postprocess(predictions, head=head))
        assert [box for _, box, _ in objects] == [[81, 90, 121, 110], [80, 90, 120, 110]]
        assert [label for label, _, _ in objects] == ["figure"] * 2
        assert [score for _, _, score in objects] == pytest.approx([0.875, 0.75])


def test_rows_have_the_length_of_the_longest() -> None:
    title = ([300, 100, 200, 40], 1, 0.75)
    figure = ([300, 400, 500, 300], 2, 0.875)
    predictions = np.concatenate([predict(title, figure), predict(), predict(title)])
    answer = postprocess(predictions)
    assert answer["OBJECTS"].tolist() == [[2], [0], [1]]
    assert answer["LABEL"].tolist() == [[b"figure", b"title"], [b"", b""], [b"title", b""]]
    assert answer["BOX"][2].tolist() == [[200, 80, 400, 120], [0, 0, 0, 0]]
    assert answer["SCORE"].tolist() == [[0.875, 0.75], [0, 0], [0.75, 0]]
    assert postprocess(predict())["BOX"].shape == (1, 0, 4)
    assert postprocess(predict()[:0], *np.empty((0, 6)))["LABEL"].shape == (0, 0)


def test_an_object_ends_where_the_image_does() -> None:
    frame = (0, 200, 608, 600, 1216, 800)  # grey is above and below
    seen = ([300, 220, 100, 100], 0, 0.9), ([300, 100, 50, 50], 0, 0.8)
    assert [box for _, box, _ in read(postprocess(predict(*seen), frame))] == [[500, 0, 700, 140]]


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (b"page.png", "its 8 bytes are not a complete JPEG or PNG image; send the content"),
        (encode(9, 9, format="GIF"), "are not a complete JPEG or PNG image"),
        (encode(9, 9)[:40], "are not a complete JPEG or PNG image"),
        (encode(5001, 5000, "1"), "more than 25,000,000 pixels; send a smaller image"),
    ],
)
def test_what_cannot_be_read_is_refused(image: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=f"IMAGE, row 1: .*{said}"):
        Preprocess(Context())(IMAGE=np.array([[encode(9, 9)], [image]], np.object_))


@pytest.mark.parametrize(
    ("head", "row", "said"),
    [
        ("yolov3", [0] * 15, "head is yolov3; write yolov5 or yolov8 or yolo26 or rf-detr"),
        ("yolov5", [0] * 85, "the detector has 80 classes, LABELS 10"),
        (
            "yolov5",
            [9, 9, 2, 2, 0.9, 3] + [0] * 9,
            "a score is 2.7; write another head than yolov5",
        ),
        ("yolo26", [0] * 15, "head yolo26 has 6 numbers an object, the detector 15"),
        ("yolo26", [9, 9, 2, 2, 0.9, 10], "the detector has a class 10, LABELS 0 to 9"),
        ("yolo26", [9, 9, 2, 2, 1, 0.93], "the detector has a class 0.93, LABELS 0 to 9"),
        ("rf-detr", [0] * 95, "the detector has 91 classes, LABELS 10"),
    ],
)
def test_a_detector_that_the_step_does_not_know_is_named(
    head: str, row: list[float], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        postprocess(np.array([[row] * 7], np.float32), head=head)
