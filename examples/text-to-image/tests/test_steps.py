# Yours: written once, never touched by `make update`.
"""The Python steps alone, without a server: the models that they call run in ONNX Runtime."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from models.direct import generated, pixels
from steps.ddim import ALPHAS, denoised, timesteps
from triton_step import InvalidRequest


def row(**values: Any) -> dict[str, NDArray[Any]]:
    kinds = {"STEPS": np.int32, "SEED": np.int64, "GUIDANCE": np.float32}
    return {name: np.array([[value]], kinds.get(name, object)) for name, value in values.items()}


def test_numbers_that_a_request_has_not_are_the_defaults() -> None:
    [image] = generated(**row(PROMPT=b"a fox"))
    defaults = row(PROMPT=b"a fox", NEGATIVE=b"", STEPS=20, SEED=0, GUIDANCE=7.5)
    assert generated(**defaults) == [image]
    assert pixels(image).shape == (64, 64, 3)


@pytest.mark.parametrize(
    "other", [{"NEGATIVE": b"fog"}, {"STEPS": 1}, {"SEED": 2**63 - 1}, {"GUIDANCE": 1}]
)
def test_each_input_changes_the_image(other: dict[str, Any]) -> None:
    assert generated(**row(PROMPT=b"a fox", **other)) != generated(**row(PROMPT=b"a fox"))


def test_a_long_prompt_is_cut_off() -> None:
    assert generated(**row(PROMPT=b"a" * 75)) == generated(**row(PROMPT=b"a" * 500))


def test_no_rows() -> None:
    assert generated(PROMPT=np.zeros((0, 1), object)) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("STEPS", 0, "is 0; send 1 to 100"),
        ("STEPS", 101, "is 101; send 1 to 100"),
        ("SEED", -1, "is -1; send 0 to 9223372036854775807"),
        ("GUIDANCE", 50.5, "is 50.5; send 0 to 50"),
        ("GUIDANCE", float("nan"), "is nan; send 0 to 50"),
    ],
)
def test_a_number_out_of_range_is_refused(name: str, value: float, said: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name}, row 0: {said}"):
        generated(**row(PROMPT=b"a fox", **{name: value}))


@pytest.mark.parametrize(("steps", "most"), [(10, 0.3), (100, 0.04), (1000, 0.005)])
def test_more_steps_are_nearer_to_what_is_known(steps: int, most: float) -> None:
    """Images that are normal around 3, with a variance of 0.1, have known noise; and each has its own image."""
    latents = start = np.linspace(-2, 2, 9, dtype=np.float32)
    variance = ALPHAS * 0.1 + 1 - ALPHAS
    for timestep, following in pairwise([*timesteps(steps), 0]):
        unlike = latents - ALPHAS[timestep] ** 0.5 * np.float32(3)
        noise = unlike * (1 - ALPHAS[timestep]) ** 0.5 / variance[timestep]
        latents = denoised(latents, noise.astype(np.float32), timestep, following)
    deviation = (start - 3 * ALPHAS[-1] ** 0.5) / variance[-1] ** 0.5
    known = 3 * ALPHAS[0] ** 0.5 + deviation * variance[0] ** 0.5
    assert np.abs(latents - known).max() < most


def test_the_first_timestep_is_noise_alone() -> None:
    assert timesteps(1) == [999]
    assert timesteps(4) == [999, 749, 499, 249]
