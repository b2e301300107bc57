"""The starting pipeline ocr reads as the package does that its models are from."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from support import PIPELINES, Generate, run, serve, succeed

pytestmark = pytest.mark.slow

PACKAGE = ("rapidocr-onnxruntime==1.4.4", "shapely")  # the rest of what it imports is here
WORDS = ["Order", "No. 48213", "of 14 July", "two espresso", "EUR 5.20", "cardamom bun"]
# Pages by name: how many lines, width, height, and the angle at which they are photographed.
PAGES = {
    "one line": (1, 500, 60, 0),
    "many": (40, 900, 1300, 0),
    "tilted": (6, 700, 300, 10),
    "steep": (6, 700, 300, -40),
    "standing": (5, 700, 260, 90),
    "upside down": (5, 700, 260, 180),
    "larger than the models take": (5, 3000, 700, 0),
    "strip": (1, 900, 40, 0),
    "column": (4, 60, 500, 0),
    "nothing": (0, 300, 200, 0),
    "a dot": (0, 1, 1, 0),
}


def draw_page(seed: int, lines: int, width: int, height: int, angle: int) -> Image.Image:
    image, words = Image.new("RGB", (width, height), "ivory"), random.Random(seed)
    size = words.choice([18, 22, 26])
    for line in range(lines):
        text = " ".join(words.choices(WORDS, k=words.randint(1, 4)))
        place = (12, 8 + line * height // lines)
        ImageDraw.Draw(image).text(place, text, "navy", ImageFont.load_default(size))
    return image.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor="ivory")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    for seed, (name, sizes) in enumerate(PAGES.items()):
        draw_page(seed, *sizes).save(folder / f"{name}.png")
    return folder


def test_it_passes_its_own_tests(generate: Generate) -> None:
    printed = succeed(generate(**PIPELINES["ocr"]).make("test", "STRICT=1", PYTEST_ADDOPTS="-v"))
    for sample in ("blank", "receipt", "three"):
        assert f"test_the_pipeline_answers_as_the_original[grpc-{sample}] PASSED" in printed


def test_it_reads_as_the_package_of_its_models(
    generate: Generate, pages: Path, tmp_path: Path
) -> None:
    project, packages, recorded = generate(**PIPELINES["ocr"]), tmp_path / "p", tmp_path / "read"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", packages)
    succeed(run(*map(str, pip), *PACKAGE, cwd=tmp_path))
    record = (sys.executable, "tests/reference/original.py", str(pages), str(recorded))
    succeed(run(*record, cwd=project.path, PYTHONPATH=str(packages)))
    original: dict[str, Any] = json.loads(recorded.read_text())
    succeed(project.make("repository"))
    assert sum(map(len, original.values())) > 60
    with serve(project) as server, project.client(server.urls["grpc"]) as client:
        for name, lines in original.items():
            answer = client.infer({"IMAGE": np.array([[(pages / name).read_bytes()]], object)})
            texts = [text.decode() for text in answer["TEXT"][0]]
            assert texts == [text for text, _, _ in lines], name
            boxes = np.array([box for _, box, _ in lines]).reshape(-1, 4, 2)
            np.testing.assert_allclose(answer["BOX"][0], boxes, rtol=0, atol=1)
