# Yours: written once, never touched by `make update`.
"""The Python steps alone, without a server."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from steps.decide import Step as Decide
from steps.features import COLUMNS
from steps.features import Step as Features
from triton_step import Context, InvalidRequest

SAMPLES = Path(__file__).parents[1] / "samples"
GENTOO: dict[str, Any] = json.loads((SAMPLES / "gentoo.txt").read_text())


def features(*rows: str) -> NDArray[np.float32]:
    table = np.array([row.encode() for row in rows], np.object_).reshape(-1, 1)
    found: NDArray[np.float32] = Features(Context())(PENGUIN=table)["FEATURES"]
    assert found.shape == (len(rows), len(COLUMNS))
    assert found.dtype == np.float32
    return found


def test_categories_are_numbers_and_null_is_nan() -> None:
    wanted = np.array([[0, 0, 46.8, 14.3, 215, 4850], [np.nan] * 6], np.float32)
    nothing = json.dumps(dict.fromkeys(COLUMNS))
    np.testing.assert_array_equal(features(json.dumps(GENTOO), nothing), wanted)


def test_columns_may_come_in_any_order() -> None:
    turned = json.dumps(dict(reversed(GENTOO.items())))
    np.testing.assert_array_equal(features(turned), features(json.dumps(GENTOO)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "is not JSON; send an object"),
        ("[" * 100_000, "is not JSON; send an object"),
        ("[1, 2]", "is not a JSON object; send one value for each column"),
        ('{"island": "Dream"}', 'has no "sex"; send island, sex, culmen_length_mm, .*, null if'),
        (json.dumps(GENTOO | {"Sex": None}), '"Sex" is not a column; leave it out'),
        (
            json.dumps(GENTOO | {"island": "Elba"}),
            '"island" is "Elba"; send one of Biscoe, Dream, Torgersen, or null',
        ),
        (json.dumps(GENTOO | {"sex": 1}), '"sex" is 1; send one of FEMALE, MALE, or null'),
        *(
            (
                json.dumps(GENTOO | {"body_mass_g": value}),
                '"body_mass_g" is not a number from 0 to 1,000,000, or null',
            )
            for value in ("4850", True, [1], float("nan"), -1, 10**400)
        ),
    ],
    ids=lambda text: text[-30:],
)
def test_a_row_that_is_wrong_is_refused(given: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=f"PENGUIN, row 1: {said}"):
        features(json.dumps(GENTOO), given)


def test_a_batch_equals_its_rows_one_by_one() -> None:
    texts = [path.read_text() for path in sorted(SAMPLES.glob("*.txt"))]
    one_by_one = np.concatenate([features(text) for text in texts])
    np.testing.assert_array_equal(features(*texts), one_by_one)


def test_an_unsure_species_is_to_be_reviewed() -> None:
    step = Decide(Context(parameters={"least": "0.9"}))
    rows = np.array([[0.95, 0.03, 0.02], [0.1, 0.6, 0.3]], np.float32)
    answer = step(PROBABILITIES=rows)
    assert answer["SPECIES"].tolist() == [[b"Adelie"], [b"Chinstrap"]]
    np.testing.assert_allclose(answer["PROBABILITY"], [[0.95], [0.6]])
    assert answer["REVIEW"].tolist() == [[False], [True]]


def test_no_rows() -> None:
    assert features().shape == (0, 6)
    none = np.zeros((0, 3), np.float32)
    assert len(Decide(Context(parameters={"least": "0.9"}))(none)["SPECIES"]) == 0
