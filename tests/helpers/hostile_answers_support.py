"""Shared by tests: any kind of value at any place of the answers: accepted, or refused in one line, with no traceback and no config that does not parse."""

from __future__ import annotations

import datetime
import math
import os
import random
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

# More, and others: HOSTILE=100000 SEED=7 python -m pytest tests/unit/compile/test_hostile_answers.py
HOSTILE = int(os.environ.get("HOSTILE", 400))
SEED = int(os.environ.get("SEED", 0))

Answers = dict[str, Any]
# Each field of the grammar, at its work.
RICH: Answers = yaml.safe_load(Path(__file__).with_name("rich_answers.yml").read_text())
ODD: list[Any] = [
    None, True, False, 0, -1, 3, 2**31, 2**64, 1.5, math.nan, math.inf,
    "", " ", "it's", 'say "no"', "a\nb", "#{", "{{ x }}", "{% if %}", "\x00", "\t", "é", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "x" * 300, "../x", "1", "null",
    [], [[]], [None], [1, "a"], [{}], {}, {"a": None}, {None: 1}, {True: {}}, {1: [2]}, {"a": {"b": []}}, {"": ""},
    datetime.date(2026, 1, 2), b"bytes", {1, 2}, {datetime.date(2026, 1, 2): 1},
]  # fmt: skip
Place = tuple[Any, ...]


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    items = (
        value
        if isinstance(value, dict)
        else dict(enumerate(value))
        if isinstance(value, list)
        else {}
    )
    for key, item in items.items():
        yield (*place, key)
        yield from places(item, (*place, key))


def changed(place: Place, odd: Any) -> Answers:
    answers = deepcopy(RICH)
    *above, last = place
    at: Any = answers
    for key in above:
        at = at[key]
    at[last] = odd
    return answers


def as_copier_reads_it(place: Place, odd: Any) -> bool:
    """Return whether Copier makes a number of a text before the checks of the graph see it."""
    return odd != "1" or place[0] not in ("gpu_count", "max_batch_size", "max_queue_delay_us")


HOSTILE_ANSWERS = [
    (place, odd) for place in places(RICH) for odd in ODD if as_copier_reads_it(place, odd)
]
CHOSEN = random.Random(SEED).sample(HOSTILE_ANSWERS, min(HOSTILE, len(HOSTILE_ANSWERS)))
