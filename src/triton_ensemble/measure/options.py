"""Numbers on the command line, with a one-line error for a wrong number."""

from __future__ import annotations

import argparse
import contextlib
import math
from typing import TypeVar

from triton_ensemble.measure.paired import FEWEST

Number = TypeVar("Number", int, float)


def positive(text: str) -> float:
    """Return a number of seconds or milliseconds. Raise ArgumentTypeError unless it is positive."""
    return _positive(float, text)


def count(text: str) -> int:
    """Return a number of callers or rows.

    Raise ArgumentTypeError unless it is positive and whole.
    """
    return _positive(int, text)


def pairs(text: str) -> int:
    """Return a number of pairs.

    Raise ArgumentTypeError for fewer than an interval needs.
    """
    if (value := count(text)) < FEWEST:
        raise argparse.ArgumentTypeError(f"{text!r} is too few; write {FEWEST} or more")
    return value


def _positive(kind: type[Number], text: str) -> Number:
    with contextlib.suppress(ValueError):
        if 0 < (value := kind(text)) < math.inf:
            return value
    whole = "whole " * (kind is int)
    raise argparse.ArgumentTypeError(f"{text!r} is not a positive {whole}number")
