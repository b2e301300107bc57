"""Models of diffusers, exported by the starting pipeline text-to-image: Triton serves the images that diffusers makes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import MATRIX, ROOT, Project, run, serve, succeed
from tiny_diffusion import REQUESTS
from update_support import copy, make_update, origin  # noqa: F401

REQUIREMENTS = ROOT / "examples/text-to-image/models/export.txt"
INSTALLED = ("onnx=", "onnxruntime=", "torch=")  # here, at versions of our own
NAMES = ("PROMPT", "NEGATIVE", "STEPS", "SEED", "GUIDANCE")
TYPES = (object, object, np.int32, np.int64, np.float32)
SHADES = 1  # of 255: the same numbers in another order

Copy = Callable[..., Project]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the exporter needs, and this environment has not."""
    folder = tmp_path_factory.mktemp("packages")
    lines = REQUIREMENTS.read_text().splitlines()
    wanted = [line for line in lines if line[0] != "#" and not line.startswith(INSTALLED)]
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder))
    succeed(run(*pip, *wanted, cwd=folder))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("predicts", ["epsilon", pytest.param("v_prediction", marks=MATRIX)])
def test_exported_models_make_the_images_of_diffusers(
    copy: Copy,
    packages: Path,
    tmp_path: Path,
    predicts: str,
) -> None:
    project, original = copy(starting_pipeline="text-to-image"), tmp_path / "original"
    for command in (
        (str(ROOT / "tests/helpers/tiny_diffusion.py"), str(original), predicts),
        ("-m", "models.export", str(original / "pipeline")),
    ):
        succeed(run(sys.executable, *command, cwd=project.path, PYTHONPATH=str(packages)))
    answers = project / "pipeline.yml"
    text = answers.read_text().replace("[77, 16]", "[77, 32]")
    answers.write_text(text.replace("onnxruntime\n", "onnxruntime\n    adopted: true\n"))
    project.commit()
    succeed(make_update(project))
    wanted = np.load(original / "images.npy") * 255
    with serve(project) as server, project.client(server.urls["grpc"]) as client:
        columns = zip(NAMES, zip(*REQUESTS, strict=True), TYPES, strict=True)
        rows = {name: np.array(column, kind).reshape(-1, 1) for name, column, kind in columns}
        rows |= {n: np.vectorize(str.encode, [object])(rows[n]) for n in ("PROMPT", "NEGATIVE")}
        files = client.infer(rows)["IMAGE"][:, 0]
    images = [np.asarray(Image.open(BytesIO(file)), float) for file in files]
    np.testing.assert_allclose(images, wanted, rtol=0, atol=SHADES)


@pytest.mark.slow
def test_what_the_step_cannot_drive_is_one_line(
    copy: Copy,
    packages: Path,
    tmp_path: Path,
) -> None:
    project, original = copy(starting_pipeline="text-to-image"), tmp_path / "original"
    tiny = (sys.executable, str(ROOT / "tests/helpers/tiny_diffusion.py"), str(original), "sample")
    succeed(run(*tiny, cwd=project.path, PYTHONPATH=str(packages)))
    export = (sys.executable, "-m", "models.export", str(original / "pipeline"))
    process = run(*export, cwd=project.path, PYTHONPATH=str(packages))
    said = "it predicts sample; take one that predicts the noise or v"
    assert process.stderr.splitlines()[-1] == f"{original / 'pipeline'}: {said}"
