# Yours: written once, never touched by `make update`.
"""The served ensemble on penguins that the trees were not trained on, as they are and with missing values."""

import json
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from models.penguins import split
from steps.decide import SPECIES
from steps.features import COLUMNS

_, HELD_OUT = split()


class Client(Protocol):
    max_batch_size: int

    def infer(self, inputs: dict[str, NDArray[np.object_]]) -> dict[str, NDArray[Any]]: ...


def ask(client: Client, rows: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return the outputs for all rows, in requests of the greatest size: by name, [n]."""
    table = np.array([json.dumps(row).encode() for row in rows], np.object_)[:, None]
    starts = range(0, len(table), client.max_batch_size)
    answers = [client.infer({"PENGUIN": table[i : i + client.max_batch_size]}) for i in starts]
    return {name: np.concatenate([each[name] for each in answers])[:, 0] for name in answers[0]}


def hide(rows: list[dict[str, Any]], count: int) -> Iterator[dict[str, Any]]:
    """Yield the rows without the values of so many columns, which are drawn for each row."""
    random = np.random.default_rng(0)
    for row in rows:
        yield row | dict.fromkeys(random.choice(COLUMNS, count, replace=False).tolist())


def test_species_are_right_and_review_finds_those_that_are_not(client: Client) -> None:
    for hidden, least, least_sure in [(0, 0.95, 0.98), (1, 0.9, 0.96), (3, 0.85, 0.93)]:
        answers = ask(client, [*hide(HELD_OUT.rows, hidden)])
        right = answers["SPECIES"] == SPECIES[HELD_OUT.species]
        sure = ~answers["REVIEW"]
        assert right.mean() > least
        assert right[sure].mean() > least_sure
