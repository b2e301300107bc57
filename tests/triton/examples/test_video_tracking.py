"""The starting pipeline video-tracking follows faces in videos, of many cameras, also when some break off."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from support import PIPELINES, Generate, Server, serve, succeed, variables

pytestmark = pytest.mark.slow

FOLLOW = (sys.executable, "samples/follow.py", "samples/crossing.mp4")
# A detector that sees a face in the middle of an image that is white, named as Ultralytics' exporter does.
YOLO = """\
import onnx.parser


def build(path):
    onnx.save(onnx.parser.parse_model('''
        <ir_version: 8, opset_import: ["" : 17]>
        yolo (float[batch, 3, height, width] images) => (float[batch, 5, anchors] output0)
        <float[1, 5, 1] seen = {320, 320, 64, 96, 0.875}> {
            grey = ReduceMean <axes = [1], keepdims = 0> (images)
            bright = ReduceMax <axes = [1], keepdims = 1> (grey)
            output0 = Mul(bright, seen)
        }
    '''), path)
"""


@pytest.fixture(scope="module")
def served(generate: Generate) -> Iterator[Server]:
    project = generate.complete(**PIPELINES["video tracking"])
    with serve(project) as server:
        yield server


def test_a_video_is_blurred_and_drawn_while_another_client_is_killed(
    served: Server, tmp_path: Path
) -> None:
    project, url = served.project, served.urls["http"]
    environment = variables(PYTHONPATH="src", TRITON_URL=url)
    killed = subprocess.Popen((*FOLLOW, f"{tmp_path}/x.mp4"), cwd=project.path, env=environment)
    while killed.poll() is None and not (tmp_path / "x.mp4").exists():
        time.sleep(0.05)
    killed.kill()
    assert killed.wait() == -9
    blurred, sheet = str(tmp_path / "blurred.mp4"), str(tmp_path / "numbers.png")
    printed = succeed(project.run(*FOLLOW, blurred, sheet, TRITON_URL=url))
    assert printed == f"36 frames, 2 faces: {blurred}, {sheet}\n"
    video = cv2.VideoCapture(blurred)
    assert [video.get(each) for each in (cv2.CAP_PROP_FRAME_COUNT, cv2.CAP_PROP_FPS)] == [36, 12]
    drawn = cv2.imread(sheet)
    assert drawn is not None
    assert drawn.shape == (3 * 270, 4 * 480, 3)
    for colour in ((60, 180, 60), (230, 120, 40)):  # of faces 1 and 2
        assert (drawn == colour).all(axis=2).sum() > 1000


def test_what_cannot_be_followed_is_one_line(served: Server) -> None:
    video = FOLLOW[-1]
    for arguments, said in {
        ("none.mp4",): "none.mp4: is not a video that OpenCV can read",
        (video, "x.mp4", "nowhere/x.png"): "nowhere/x.png: name a .png in a folder that exists",
        (video, "x.txt"): "x.txt: name a .mp4 in a folder that exists",
        (video,): "127.0.0.1:9: [Errno 111] Connection refused",
    }.items():
        done = served.project.run(*FOLLOW[:2], *arguments, TRITON_URL="http://127.0.0.1:9")
        assert (done.returncode, done.stderr) == (1, f"follow.py: {said}\n")


def test_another_detector_takes_its_place_by_one_file(generate: Generate) -> None:
    project = generate(**PIPELINES["video tracking"])
    (project / "models/detect.py").write_text(YOLO)
    succeed(project.make("repository"))
    images = [cv2.imencode(".png", np.full((320, 320), shade))[1] for shade in (255.0, 0.0, 255.0)]
    with serve(project) as server, project.client(server.urls["grpc"]) as client:
        answers = [
            client.infer({"IMAGE": [[image.tobytes()]]}, 7, start=i == 0, end=i == 2)
            for i, image in enumerate(images)
        ]
    assert [answer["NUMBER"].tolist() for answer in answers] == [[[1]]] * 3
    assert [answer["SCORE"].tolist() for answer in answers] == [[[0.875]], [[0]], [[0.875]]]
    assert answers[1]["BOX"].tolist() == [[[144, 136, 176, 184]]]
