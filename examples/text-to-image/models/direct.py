# Yours: written once, never touched by `make update`.
"""The pipeline without a server, for tests: the model files of model_repository/ in ONNX Runtime."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]
import yaml
from numpy.typing import NDArray
from PIL import Image

from steps.generate import NUMBERS, Step
from triton_step import Context

ROOT = Path(__file__).parents[1]
Arrays = dict[str, NDArray[Any]]


def model(name: str) -> Callable[..., Awaitable[Arrays]]:
    session = ort.InferenceSession(ROOT / "model_repository" / name / "1/model.onnx")
    outputs = [output.name for output in session.get_outputs()]

    async def call(**inputs: NDArray[Any]) -> Arrays:
        return dict(zip(outputs, session.run(outputs, inputs), strict=True))

    return call


@cache
def step() -> Step:
    """Return the step with the parameters of pipeline.yml."""
    steps = yaml.safe_load((ROOT / "pipeline.yml").read_text())["steps"]
    [own] = [step for step in steps if step["name"] == "generate"]
    parameters = {name: str(value) for name, value in own["parameters"].items()}
    calls = {name: model(name) for name in own["calls"]}
    return Step(Context(parameters=parameters, calls=SimpleNamespace(**calls)))


def generated(**given: NDArray[Any]) -> list[bytes]:
    """Return the files of a request, by row."""
    inputs: dict[str, Any] = dict.fromkeys(["NEGATIVE", *NUMBERS]) | given
    files: list[bytes] = asyncio.run(step()(**inputs))["IMAGE"][:, 0].tolist()
    return files


def pixels(file: bytes) -> NDArray[np.int32]:
    """Return a PNG as [height, width, 3], 0 to 255."""
    with Image.open(BytesIO(file), formats=["PNG"]) as image:
        return np.asarray(image.convert("RGB"), np.int32)
