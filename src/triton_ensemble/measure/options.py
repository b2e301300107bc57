"""Numbers on the command line, with a one-line error for a wrong number."""

from __future__ import annotations

import argparse
import contextlib
import math
from typing import TypeVar

Number = TypeVar("Number", int, float)


def positive(text: str) -> float:
    """Return a number of seconds or milliseconds. Raise ArgumentTypeError unless it is positive."""
    return _positive(float, text)


def count(text: str) -> int:
    """Return a number of callers or rows.

    Raise ArgumentTypeError unless it is positive and whole.
    """
    return _positive(int, text)


def _positive(kind: type[Number], text: str) -> Number:
    with contextlib.suppress(ValueError):
        if 0 < (value := kind(text)) < math.inf:
            return value
    whole = "whole " * (kind is int)
    raise argparse.ArgumentTypeError(f"{text!r} is not a positive {whole}number")
