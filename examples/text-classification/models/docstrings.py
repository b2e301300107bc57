# Yours: written once, never touched by `make update`.
"""What SciPy's functions say of themselves, and the classifier that is trained on it.

SciPy is in this environment, because scikit-learn needs it, so nothing is downloaded. A text is the
beginning of a function's docstring, and its label the part of SciPy that has the function.
"""

import inspect
import re
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]

from steps.words import VOCABULARY, token_ids

MODULES = {  # by label: all that is read of this part of SciPy
    "cluster": ("cluster.hierarchy", "cluster.vq"),
    "fft": ("fft",),
    "integrate": ("integrate",),
    "interpolate": ("interpolate",),
    "linalg": ("linalg",),
    "ndimage": ("ndimage",),
    "optimize": ("optimize",),
    "signal": ("signal",),
    "sparse": ("sparse", "sparse.csgraph", "sparse.linalg"),
    "spatial": ("spatial", "spatial.distance", "spatial.transform"),
    "special": ("special",),
    "stats": ("stats", "stats.contingency", "stats.qmc"),
}


class Texts(NamedTuple):
    """Texts, and the index of the label of each in MODULES."""

    texts: list[str]
    labels: NDArray[np.int64]


@cache
def split() -> tuple[Texts, Texts]:
    """The texts to train on and, a quarter of all, the held-out ones; always the same."""
    found = {text: label for label, part in enumerate(MODULES) for text in _texts(part)}
    labels = np.array(list(found.values()))
    train, held_out, train_labels, held_out_labels = train_test_split(
        list(found), labels, test_size=0.25, random_state=0, stratify=labels
    )
    return Texts(train, train_labels), Texts(held_out, held_out_labels)


@cache
def classifier() -> Any:
    """The trained LogisticRegression; its `decision_function` returns logits, FP64[n, 12]."""
    train, _ = split()
    return LogisticRegression(tol=1e-3, max_iter=1000).fit(occurrences(train.texts), train.labels)


def occurrences(texts: list[str]) -> NDArray[np.float32]:
    """FP32[n, VOCABULARY]: 1 where the text has a word of this number."""
    return of_ids(np.array([token_ids(text) for text in texts]))


def of_ids(ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """INT64[n, LENGTH] -> FP32[n, VOCABULARY]: how often each number but 0 occurs."""
    counts = np.zeros((len(ids), VOCABULARY), dtype=np.float32)
    np.add.at(counts, (np.arange(len(ids))[:, None], ids), 1)
    counts[:, 0] = 0
    return counts


def _texts(part: str) -> list[str]:
    modules = [import_module(f"scipy.{name}") for name in MODULES[part]]
    named = {(name, getattr(module, name)) for module in modules for name in module.__all__}
    docs = [inspect.getdoc(value) or "" for _, value in sorted(named, key=lambda pair: pair[0])]
    return sorted({text for doc in docs if (text := _beginning(doc))})


def _beginning(doc: str) -> str:
    """The first two paragraphs before the first heading, without signatures and directives."""
    before_headings = re.split(r"\n[\w ]+\n---", doc)[0]
    paragraphs = [" ".join(lines.split()) for lines in re.split(r"\n\s*\n", before_headings)]
    return " ".join([p for p in paragraphs if not re.match(r"\w+\(.*\)|\.\. ", p)][:2])
