"""The other side of serving.Program: asks as it is told by lines on standard input. Imports nothing that a peer lacks."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from typing import Any


def obey(
    ask: Callable[[int], dict[str, Any]], load: Callable[[int, float], tuple[int, list[float]]]
) -> None:
    """Answer `{"row": 0}` by that row's answer, and `{"concurrency": 8, "seconds": 2}` by the rate and its latencies.

    load: returns how many were answered, and the seconds that calls took.
    """
    for line in sys.stdin:
        order = json.loads(line)
        if "row" in order:
            print(json.dumps(ask(order["row"])), flush=True)
            continue
        answers, seconds = load(order["concurrency"], order["seconds"])
        cuts = statistics.quantiles(seconds, n=100) if len(seconds) > 1 else seconds * 99
        rate = [answers / order["seconds"], 1000 * cuts[49], 1000 * cuts[98]]
        print(json.dumps(rate), flush=True)
