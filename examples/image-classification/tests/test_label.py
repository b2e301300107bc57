# Yours: written once, never touched by `make update`.
"""Step label alone, without a server."""

import numpy as np
import pytest

from steps.label import Step as Label
from steps.labels import LABELS
from triton_step import Context

COUNT = len(LABELS)


def label(*logits: list[float]) -> tuple[list[bytes], list[float]]:
    outputs = Label(Context())(LOGITS=np.array(logits, dtype=np.float32).reshape(-1, COUNT))
    assert outputs["LABEL"].shape == outputs["SCORE"].shape == (len(logits), 1)
    assert outputs["SCORE"].dtype == np.float32
    return outputs["LABEL"][:, 0].tolist(), outputs["SCORE"][:, 0].tolist()


def test_label_is_the_greatest_logit_and_score_its_probability() -> None:
    first = [np.log(9 * (COUNT - 1.0))] + [0.0] * (COUNT - 1)
    labels, scores = label(first, [0.0] * (COUNT - 1) + [1.0])
    assert labels == [LABELS[0], LABELS[-1]]
    assert scores == pytest.approx([0.9, np.e / (COUNT - 1 + np.e)])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("offset", [-1e30, -1000, 1000, 1e30])
def test_softmax_survives_logits_of_any_size(offset: float) -> None:
    _, scores = label([offset] * COUNT)
    assert scores == pytest.approx([1 / COUNT])


def test_no_rows() -> None:
    assert label() == ([], [])
