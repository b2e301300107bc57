"""Dims of tensors: -1 stands for any size."""

from __future__ import annotations

import math
from collections.abc import Sequence


def is_same_dims(one: Sequence[int], two: Sequence[int]) -> bool:
    """Return whether two dims are the same. A size of -1 matches any other."""
    pairs = zip(one, two, strict=False)
    return len(one) == len(two) and all(a == b or -1 in (a, b) for a, b in pairs)


def segments(dims: Sequence[int]) -> list[int]:
    """Return the count of values between each two dims that vary, which a reshape must keep."""
    parts: list[list[int]] = [[]]
    for dim in dims:
        if dim == -1:
            parts.append([])
        else:
            parts[-1].append(dim)
    return [math.prod(part) for part in parts]
