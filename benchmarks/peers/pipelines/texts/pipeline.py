"""The text pipeline in plain functions: the steps of a project and its model file, one thread for each process."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from numpy.typing import NDArray

from steps.pool import Step as Pool
from steps.tokenize import Step as Tokenize
from triton_step import Context

OUTPUTS: dict[str, tuple[type, tuple[int, ...]]] = {"EMBEDDING": (np.float32, (384,))}
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(os.environ["MODEL_FILE"], options, ["CPUExecutionProvider"])
tokenize, pool = Tokenize(Context()), Pool(Context())


def outputs(texts: Sequence[bytes]) -> dict[str, NDArray[Any]]:
    """Return the rows of all texts by output."""
    tokens = tokenize(TEXT=np.array(texts, np.object_)[:, None])
    inputs = {"input_ids": tokens["TOKEN_IDS"], "attention_mask": tokens["MASK"]}
    hidden = session.run(["last_hidden_state"], inputs)[0]
    return {**pool(HIDDEN=hidden, MASK=tokens["MASK"])}


def answers(texts: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return an answer for each text."""
    return [{"EMBEDDING": vector} for vector in outputs(texts)["EMBEDDING"].tolist()]
