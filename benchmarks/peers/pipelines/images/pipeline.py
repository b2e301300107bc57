"""The image pipeline in plain functions: the steps of a project and its model file, one thread for each process."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from numpy.typing import NDArray

from steps.label import Step as Label
from steps.preprocess import Step as Preprocess
from triton_step import Context

OUTPUTS: dict[str, tuple[type, tuple[int, ...]]] = {
    "LABEL": (bytes, (1,)),
    "SCORE": (np.float32, (1,)),
}
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(os.environ["MODEL_FILE"], options, ["CPUExecutionProvider"])
preprocess, label = Preprocess(Context()), Label(Context())


def outputs(images: Sequence[bytes]) -> dict[str, NDArray[Any]]:
    """Return the rows of all images by output."""
    pixels = preprocess(IMAGE=np.array(images, np.object_)[:, None])["PIXELS"]
    return {**label(LOGITS=session.run(["logits"], {"pixels": pixels})[0])}


def answers(images: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return an answer for each image."""
    rows = outputs(images)
    pairs = zip(rows["LABEL"][:, 0], rows["SCORE"][:, 0].tolist(), strict=True)
    return [{"LABEL": text.decode(), "SCORE": score} for text, score in pairs]
