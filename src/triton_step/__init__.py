"""The part of the toolkit that a Python step may import. It is next to the step's code wherever Triton runs it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


class InvalidRequest(ValueError):
    """Raise it for an input that the client must correct: the text goes to the client, as status 400 or INVALID_ARGUMENT."""


class SequencePosition(NamedTuple):
    """The position of a request in its sequence. A step of a sequence model gets it before the inputs."""

    id: int | str
    start: bool
    end: bool


class Counter:
    """A number that only grows. Triton's /metrics shows it within a second."""

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, amount: float = 1.0) -> None:
        self.value += amount


class Metrics:
    """The counters of a step."""

    def __init__(self) -> None:
        self.counters: dict[tuple[str, str], Counter] = {}

    def counter(self, name: str, description: str) -> Counter:
        """Return the counter of this name, as Prometheus has it: `cache_misses_total`."""
        return self.counters.setdefault((name, description), Counter())


@dataclass(frozen=True)
class Context:
    """The information that a step gets when it is made.

    parameters: the step's `parameters` in pipeline.yml.
    directory: the model's version folder, for files next to the code.
    version: the model's version.
    device: "cpu", or "cuda:N" for this instance's GPU.
    logger: writes to Triton's log.
    metrics: `metrics.counter(name, description).add(1)` appears in Triton's /metrics.
    calls: the models that the step may call, as functions: `calls.NAME(INPUT=array)["OUTPUT"]`.
        They raise RuntimeError if the model fails, and TimeoutError once nobody waits for the answer. In an async step,
        await them. For a decoupled model they return an iterator over its answers.
    """

    parameters: Mapping[str, str] = field(default_factory=dict)
    directory: Path = Path()
    version: str = "1"
    device: str = "cpu"
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("step"))
    metrics: Metrics = field(default_factory=Metrics)
    calls: Any = None


def text(array: NDArray[np.object_]) -> NDArray[np.object_]:
    """Return the bytes of a STRING tensor as `str`, in an array of the same shape.

    Raise InvalidRequest for bytes that are not UTF-8.
    """
    data: Any  # bytes, which NumPy's types do not say
    decoded = np.empty_like(array)
    for position, data in np.ndenumerate(array):
        try:
            decoded[position] = data.decode()
        except UnicodeDecodeError as error:
            where = _name_place(position, array.shape)
            raise InvalidRequest(f"{where} is not UTF-8 text: {error}") from error
    return decoded


def pad_to_bucket(
    rows: Sequence[ArrayLike], sizes: Sequence[int], dtype: DTypeLike, fill: float = 0
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return rows of any lengths, `[length, *dims]` each, as one array `[batch, size, *dims]` of a few possible sizes.

    Triton joins only requests of equal shapes. With rows padded to the first of `sizes` that fits the longest row, most
    requests have equal shapes: sizes=(64, 256). The second array, BOOL[batch, size], is False at `fill`. InvalidRequest
    if a row is longer than all sizes.
    """
    arrays = [np.asarray(row, dtype=dtype) for row in rows]
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    longest, largest = int(lengths.max(initial=0)), max(sizes)
    if longest > largest:
        where = f"row {lengths.argmax()} has a length of {longest}"
        raise InvalidRequest(f"{where}; send one of at most {largest}")
    size = min(size for size in sizes if size >= longest)
    dims = next((array.shape[1:] for array in arrays), ())
    padded: NDArray[Any] = np.full((len(arrays), size, *dims), fill, dtype=dtype)
    for place, array in zip(padded, arrays, strict=True):
        place[: len(array)] = array
    return padded, np.arange(size) < lengths[:, np.newaxis]


def _name_place(position: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Return words for the row, as clients number them, and for the element if a row has several."""
    row, *element = position or (0,)
    return f"row {row}" if np.prod(shape[1:]) == 1 else f"row {row}, element {element}"
