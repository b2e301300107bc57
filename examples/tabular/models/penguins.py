# Yours: written once, never touched by `make update`.
"""The penguins of the Palmer Archipelago, and the trees that are trained on them.

The measurements are by Gorman, Williams and Fraser (2014, doi.org/10.1371/journal.pone.0090081), CC0. The scikit-learn
package has the table, which its own tests read, so nothing is downloaded.
"""

import csv
import gzip
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]
from threadpoolctl import threadpool_limits

from steps.decide import SPECIES
from steps.features import CATEGORIES, COLUMNS, NUMBERS, encode

TABLE = "datasets/tests/data/openml/id_42585/data-v1-dl-21854866.arff.gz"
ORDER = ["species", "island", *NUMBERS, "sex"]
COPIES = 5  # of each penguin in the training: all values, then without up to 4 of 5


class Penguins(NamedTuple):
    """Rows as requests have them, features FP32[n, 6], and the indexes of n species in SPECIES."""

    rows: list[dict[str, Any]]
    features: NDArray[np.float32]
    species: NDArray[np.int64]


@cache
def split() -> tuple[Penguins, Penguins]:
    """Return the penguins to train on and, a quarter of all, those held out; always the same."""
    table = gzip.decompress(files("sklearn").joinpath(TABLE).read_bytes()).decode()
    found = [
        dict(zip(ORDER, fields, strict=True))
        for fields in csv.reader(table.partition("@DATA\n")[2].splitlines())
    ]
    species = np.array([SPECIES.tolist().index(each["species"].encode()) for each in found])
    rows = [{name: _value(name, each[name]) for name in COLUMNS} for each in found]
    both = train_test_split(rows, species, test_size=0.25, random_state=0, stratify=species)
    train, held_out, train_species, held_out_species = both
    return _penguins(train, train_species), _penguins(held_out, held_out_species)


def _penguins(rows: list[dict[str, Any]], species: NDArray[np.int64]) -> Penguins:
    features = [encode(row, f"row {index}") for index, row in enumerate(rows)]
    return Penguins(rows, np.array(features, np.float32), species)


def _value(name: str, text: str) -> str | float | None:
    """Return a field of the table, where `?` is a missing value, and `_` too in one row."""
    if text in ("?", "_"):
        return None
    return text if name in CATEGORIES else float(text)


@cache
def classifier() -> Any:
    """Return the trained trees, which take categories and missing values as they are.

    The table lacks few values, so most copies of a penguin lack some more, which are drawn: requests may lack any.
    """
    train, _ = split()
    features = np.tile(train.features, (COPIES, 1))
    shares = np.repeat(np.arange(COPIES) / COPIES, len(train.features))[:, None]
    features[np.random.default_rng(0).random(features.shape) < shares] = np.nan
    categorical = [name in CATEGORIES for name in COLUMNS]
    trees = HistGradientBoostingClassifier(
        max_iter=30, categorical_features=categorical, random_state=0
    )
    with threadpool_limits(1):  # so small a table is faster on one core
        return trees.fit(features, np.tile(train.species, COPIES))
