# Yours: written once, never touched by `make update`.
"""How the model file of step screen is made: trained in a second, exported to ONNX."""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.utils import extract_model
from skl2onnx import convert_sklearn  # type: ignore[import-untyped]
from skl2onnx.common.data_types import FloatTensorType  # type: ignore[import-untyped]
from sklearn.mixture import GaussianMixture  # type: ignore[import-untyped]

from models.digits import split

OPSET = 17  # read by every ONNX Runtime since 1.12; a newer one can be too new for the server
DIGITS_ABOVE = 0.01  # of the digits in the training, as many have a novelty above 0


class Screen(NamedTuple):
    """The density of digits, and the logarithm that it has for all but a few of them."""

    density: Any
    threshold: float


@cache
def screen() -> Screen:
    """The trained GaussianMixture and its threshold."""
    train, _ = split()
    density = GaussianMixture(10, covariance_type="tied", reg_covar=0.01, random_state=0)
    density.fit(train.pixels)
    logarithms = density.score_samples(train.pixels)
    return Screen(density, float(np.quantile(logarithms, DIGITS_ABOVE)))


def build(path: Path) -> None:
    """Write an ONNX file: pixels FP32[batch, 64] -> is_digit BOOL[batch, 1], novelty FP32[batch, 1]."""
    density, threshold = screen()
    model = convert_sklearn(
        density,
        initial_types=[("pixels", FloatTensorType([None, 64]))],
        options={id(density): {"score_samples": True}},
        target_opset=OPSET,
    )
    logarithm = model.graph.output[2].name
    model.graph.initializer.extend([_constant("threshold", threshold), _constant("zero", 0)])
    model.graph.node.extend(
        [
            helper.make_node("Sub", ["threshold", logarithm], ["novelty"]),
            helper.make_node("LessOrEqual", ["novelty", "zero"], ["is_digit"]),
        ]
    )
    model.graph.output.extend(
        [
            helper.make_tensor_value_info("is_digit", TensorProto.BOOL, [None, 1]),
            helper.make_tensor_value_info("novelty", TensorProto.FLOAT, [None, 1]),
        ]
    )
    onnx.save(model, path)
    extract_model(path, path, ["pixels"], ["is_digit", "novelty"])


def _constant(name: str, value: float) -> Any:
    return numpy_helper.from_array(np.array([value], dtype=np.float32), name)


def reference(inputs: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[Any]]:
    """What the file must answer: tests/test_reference.py compares."""
    density, threshold = screen()
    novelty = (threshold - density.score_samples(inputs["pixels"])).reshape(-1, 1)
    return {"is_digit": novelty <= 0, "novelty": novelty}
