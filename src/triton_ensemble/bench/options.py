"""What is given on the command line; a wrong one is an error of one line."""

from __future__ import annotations

import argparse
import contextlib
import math
from typing import TypeVar

Number = TypeVar("Number", int, float)


def parser(program: str, description: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(program, usage=argparse.SUPPRESS, description=description)


def positive(text: str) -> float:
    """A number of seconds or milliseconds."""
    return _checked(float, text)


def count(text: str) -> int:
    """Of callers or rows."""
    return _checked(int, text)


def _checked(kind: type[Number], text: str) -> Number:
    with contextlib.suppress(ValueError):
        if 0 < (value := kind(text)) < math.inf:
            return value
    whole = "whole " * (kind is int)
    raise argparse.ArgumentTypeError(f"{text!r} is no positive {whole}number")
