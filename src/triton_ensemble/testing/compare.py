"""Compares answers: what differs by more than rounding, a line for each output."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Answer: TypeAlias = Mapping[str, NDArray[Any]]
# `rtol` and `atol`, as NumPy's `isclose` has them, by output; None: any value will do.
Tolerances: TypeAlias = Mapping[str, Mapping[str, float] | None]

EXACT = {"rtol": 0.0, "atol": 0.0}
FLOAT = {"rtol": 1e-3, "atol": 1e-5}  # other hardware rounds in another way
HALF = {"rtol": 1e-2, "atol": 1e-3}


def tolerance(dtype: np.dtype[Any]) -> dict[str, float]:
    """Return the default tolerance of an output, by its type."""
    if dtype.kind != "f":
        return EXACT
    return HALF if dtype.itemsize == 2 else FLOAT


def differences(
    have: Answer, want: Answer, tolerances: Tolerances, *, of_largest: bool = False
) -> dict[str, str]:
    """Return the first difference of each wanted output that differs, by output.

    `of_largest`: `rtol` is relative to the largest value of an output, not to each value.
    """
    lines = {}
    for name, values in want.items():
        own = tolerances.get(name, {})
        if own is not None and (
            line := _describe_difference(name, have.get(name), values, own, of_largest)
        ):
            lines[name] = line
    return lines


def _describe_difference(
    name: str,
    have: NDArray[Any] | None,
    want: NDArray[Any],
    own: Mapping[str, float],
    of_largest: bool,
) -> str | None:
    if have is None:
        return f"{name}: expected, and missing"
    if have.size == want.size == 0:
        return None
    if have.shape != want.shape:
        return f"{name}: expected shape {list(want.shape)}, got {list(have.shape)}"
    places = np.argwhere(_unlike(have, want, {**tolerance(have.dtype), **own}, of_largest))
    if not len(places):
        return None
    first = tuple(places[0])
    more = f"; {len(places) - 1} more differ" if len(places) > 1 else ""
    where = ", ".join(map(str, first))
    return f"{name}[{where}]: expected {_show(want[first])}, got {_show(have[first])}{more}"


def _unlike(
    have: NDArray[Any], want: NDArray[Any], own: Mapping[str, float], of_largest: bool
) -> NDArray[np.bool_]:
    if object in (have.dtype, want.dtype):
        return np.asarray(have != want, dtype=bool)
    rtol, atol = own["rtol"], own["atol"]
    if of_largest and rtol:
        atol += rtol * float(np.abs(want[np.isfinite(want)]).max(initial=0))
    return ~np.isclose(have, want, rtol, atol, equal_nan=True)


def _show(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    text = value.decode(errors="backslashreplace")
    return repr(text if len(text) <= 60 else text[:60] + "...")


class Values:
    """Compares answers that should be the same, however many rows or requests shared a call.

    Outputs that are random, or count, differ between equal requests: the first time that shows, a
    warning says so, and from then on any value of them will do.
    """

    def __init__(self, tolerances: Tolerances) -> None:
        self._tolerances = dict(tolerances)

    def problem(
        self, what: str, have: Answer, want: Answer, again: Callable[[], Sequence[Answer]]
    ) -> str:
        """Return what differs, and what to do then, or "" if nothing does.

        `again` sends the same request.
        """
        lines = self._list_differences(have, want)
        if lines and (random := lines.keys() & self._random(again)):
            names = ", ".join(sorted(random))
            message = f"{names}: equal requests get different answers, so values are not compared"
            warnings.warn(message, stacklevel=2)
            self._tolerances.update(dict.fromkeys(random))
            lines = {name: line for name, line in lines.items() if name not in random}
        if not lines:
            return ""
        any_value = json.dumps({"tolerances": dict.fromkeys(lines)}, ensure_ascii=False)
        way_out = f"if they may differ: {any_value} in tests/golden.json takes any values of them"
        return "\n".join([what, *lines.values(), way_out])

    def _list_differences(self, have: Answer, want: Answer) -> dict[str, str]:
        # Another batch size is summed up in another order, and that rounds relative to the largest term.
        return differences(have, want, self._tolerances, of_largest=True)

    def _random(self, again: Callable[[], Sequence[Answer]]) -> set[str]:
        """Return the outputs that differ between equal requests."""
        # A step that keeps something of a request answers the first ones with what is not theirs.
        _, last = [again() for _ in range(4)], [again() for _ in range(4)]
        return {
            name
            for others in last[1:]
            for one, other in zip(last[0], others, strict=False)
            for name in self._list_differences(one, other)
        }
