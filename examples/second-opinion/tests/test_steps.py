# Yours: written once, never touched by `make update`.
"""The Python steps alone, without a server."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer  # type: ignore[import-untyped]

from steps.featurize import NAMES
from steps.featurize import Step as Featurize
from steps.join import Step as Join
from triton_step import Context, InvalidRequest

SAMPLES = Path(__file__).parents[1] / "samples"
BENIGN: dict[str, Any] = json.loads((SAMPLES / "benign.txt").read_text())


def featurize(*texts: str) -> NDArray[np.float32]:
    rows = np.array([text.encode() for text in texts], dtype=np.object_).reshape(-1, 1)
    features: NDArray[np.float32] = Featurize(Context())(MEASUREMENTS=rows)["FEATURES"]
    assert features.shape == (len(texts), 30)
    assert features.dtype == np.float32
    return features


def join(linear: list[float], forest: list[float]) -> tuple[bytes, float, bool]:
    rows = [np.array([row], dtype=np.float32) for row in (linear, forest)]
    outputs = Join(Context())(*rows)
    assert outputs["PROBABILITY"].dtype == np.float32
    [diagnosis], [probability], [agreed] = (
        outputs[name][0] for name in ("DIAGNOSIS", "PROBABILITY", "AGREED")
    )
    return diagnosis, probability, agreed


def test_features_are_in_the_order_of_the_training() -> None:
    assert list(NAMES) == load_breast_cancer().feature_names.tolist()
    given = json.dumps({name: NAMES.index(name) for name in reversed(NAMES)})
    np.testing.assert_array_equal(featurize(given), [range(30)])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "is not JSON; send an object of numbers"),
        ("{" * 100_000, "is not JSON; send an object of numbers"),
        ("[1, 2]", "is not a JSON object; send one of numbers by name"),
        ("{}", 'has no "mean radius"; send all 30 measurements'),
        (
            json.dumps(BENIGN | {"Radius": 1}),
            '"Radius" is not a measurement; send mean radius, mean',
        ),
        *(
            (
                json.dumps(BENIGN | {"mean area": value}),
                '"mean area" is not a number from 0 to 1e30',
            )
            for value in (None, True, "12", [1], float("nan"), float("inf"), -1, 10**400)
        ),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_sample_is_refused(given: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"MEASUREMENTS, row 1: {said}"):
        featurize(json.dumps(BENIGN), given)


def test_a_batch_equals_its_rows_one_by_one() -> None:
    texts = [path.read_text() for path in sorted(SAMPLES.glob("*.txt"))]
    one_by_one = np.concatenate([featurize(text) for text in texts])
    np.testing.assert_array_equal(featurize(*texts), one_by_one)


def test_no_rows() -> None:
    assert featurize().shape == (0, 30)
    none = np.zeros((0, 2), dtype=np.float32)
    assert len(Join(Context())(none, none)["DIAGNOSIS"]) == 0


def test_models_that_agree() -> None:
    assert join([0.9, 0.1], [0.7, 0.3]) == (b"malignant", pytest.approx(0.8), True)


def test_the_mean_decides_where_they_do_not() -> None:
    assert join([0.4, 0.6], [0.9, 0.1]) == (b"malignant", pytest.approx(0.65), False)
