"""The starting pipeline object-detection without its model."""

from __future__ import annotations

import sys

import pytest
from exported_detectors import ALONE, EXPORTS, Export, write
from support import PIPELINES, Generate, Project, succeed

# Of boxes that overlap much, as detectors predict them.
AS_OPENCV = '''\
"""OpenCV keeps the boxes that the step keeps."""

import cv2
import numpy as np
import pytest

from steps.postprocess import suppress


@pytest.mark.parametrize("overlap", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_opencv_keeps_the_same(seed: int, overlap: float) -> None:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 300, (200, 2)).repeat(4, 0) + random.normal(0, 8, (800, 2))
    sizes = random.uniform(30, 90, (200, 2)).repeat(4, 0) + random.normal(0, 4, (800, 2))
    boxes = np.concatenate([corners, corners + sizes], 1).astype(np.float32)
    scores = random.uniform(0.5, 1, 800).astype(np.float32)
    classes = random.integers(0, 4, 800)
    xywh = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1)
    kept = cv2.dnn.NMSBoxesBatched(xywh.tolist(), scores.tolist(), classes.tolist(), 0.0, overlap)
    assert suppress(boxes, scores, classes, overlap) == list(kept)[:300]
'''


@pytest.fixture
def project(generate: Generate) -> Project:
    return generate(**PIPELINES["object detection"])


@pytest.mark.slow
def test_its_steps_pass_their_tests_and_keep_what_opencv_keeps(project: Project) -> None:
    (project / "tests/test_opencv.py").write_text(AS_OPENCV)
    names = ("tests/test_steps.py", "tests/test_opencv.py")
    printed = succeed(project.run(sys.executable, "-m", "pytest", "-q", *names))
    assert " skipped" not in printed


RAW, FREE, OLD, DETR = (
    EXPORTS[name] for name in ("yolo26 by default", "yolo26", "yolov10", "rf-detr")
)
ONE_CLASS = RAW.metadata | {"names": "{0: 'cat'}"}
FITS_NONE = "which is of no head; yolov5 has [places, {}], yolov8 [{}, places], yolo26 [objects, 6]"
DYNAMIC = "does not take any number of FP32 images; export it with dynamic=True"


def one_class(count: int) -> Export:
    rows = {"output0": (count, [[16.0, 32, 8, 16, 0.9, 0]])}
    return OLD._replace(outputs=rows, metadata={"names": "{0: 'cat'}"})


@pytest.mark.parametrize(
    ("export", "said"),
    [
        pytest.param(EXPORTS["yolo26 with suppression"], "write `head: yolo26`", id="suppression"),
        pytest.param(RAW, "write `PREDICTIONS: FP32[6, -1]` in place", id="of any size"),
        pytest.param(RAW._replace(turned=False), FITS_NONE.format(7, 6), id="turned"),
        pytest.param(OLD._replace(metadata=ONE_CLASS), FITS_NONE.format(6, 5), id="as none says"),
        pytest.param(OLD, "write `PREDICTIONS: FP32[20, 6]` in place", id="without metadata"),
        # Six numbers of one class are told apart by the places of an image.
        pytest.param(one_class(20), "write `head: yolo26`", id="one class, few objects"),
        pytest.param(one_class(126), "write `head: yolov5`", id="one class, all places"),
        pytest.param(FREE._replace(batch=1), DYNAMIC, id="one image"),
        pytest.param(
            FREE._replace(metadata={"task": "pose"}), "is a model of task pose", id="pose"
        ),
        pytest.param(DETR, "write in LABELS 2 classes, or 3 if the last", id="as many as logits"),
        pytest.param(None, "own.onnx: is not a whole ONNX file; export or copy it", id="cut off"),
    ],
)
def test_a_detector_that_does_not_fit_is_refused_with_lines_that_say_what_to_write(
    project: Project, export: Export | None, said: str
) -> None:
    own = project / "models/detect/own.onnx"
    own.parent.mkdir()
    write(own, export or RAW)
    if not export:
        own.write_bytes(own.read_bytes()[:-9])
    refused = project.make("repository", **ALONE)
    assert refused.returncode == 2
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr
