"""The starting pipeline object-detection without its model."""

from __future__ import annotations

import sys

import pytest
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
