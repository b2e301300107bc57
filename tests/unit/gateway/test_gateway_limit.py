"""Places while requests are refused, by pipelines of several kinds whose time is the test's."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

import pytest

from triton_ensemble.gateway.admission import Limit

WINDOW_S = 0.5
Seconds = Callable[[int], float]  # what a request takes where so many are computed at once


class Worker:
    """Places that are full, each request's end drawn when it begins. A request that finds no place is refused."""

    def __init__(self, most: int, takes: Seconds, noise: float = 0.0) -> None:
        self.limit = Limit(most)
        self.takes, self.noise = takes, noise
        self.now = self.looked = 0.0
        self.ends: list[float] = []
        self.draw = random.Random(most)

    def run(self, seconds: float, refused: float = 9) -> int:
        """Return how many are answered, each beside so many that get no place."""
        end, total, answered = self.now + seconds, 0, 0
        while self.now < end:
            while len(self.ends) < self.limit.places:
                factor = 1 + self.draw.uniform(-self.noise, self.noise)
                heapq.heappush(self.ends, self.now + factor * self.takes(len(self.ends) + 1))
            if self.ends and self.ends[0] < self.looked + WINDOW_S:
                self.now = heapq.heappop(self.ends)
                answered += 1
                continue
            self.now = self.looked = self.looked + WINDOW_S
            self.limit.window(answered, int(refused * answered), WINDOW_S)
            total, answered = total + answered, 0
        return total


def computes(at_once: int) -> float:
    return at_once / 1000


def batches(at_once: int) -> float:
    return 0.02 + 0.0002 * at_once


def waits(at_once: int) -> float:
    return 0.05


def waits_long(at_once: int) -> float:
    return 2


def test_places_that_only_add_waiting_go() -> None:
    worker = Worker(32, computes)
    worker.run(20)
    assert worker.limit.places == 4


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0, 0.5])
@pytest.mark.parametrize("most", [1, 2, 3, 8, 32])
@pytest.mark.parametrize("takes", [waits, waits_long, batches])
def test_places_that_add_answers_stay(takes: Seconds, most: int, noise: float) -> None:
    found, always = Worker(most, takes, noise), Worker(most, takes, noise)
    assert found.run(1000) > 0.9 * always.run(1000, refused=0)


def test_they_are_back_as_soon_as_refusals_end() -> None:
    worker = Worker(32, computes)
    worker.run(20)
    worker.run(2 * WINDOW_S, refused=0.5)
    assert worker.limit.places == 32
    worker.run(20)
    worker.limit.window(0, 0, WINDOW_S)
    assert worker.limit.places == 32


def test_a_hiccup_costs_none() -> None:
    worker = Worker(32, computes)
    for _ in range(20):
        worker.run(1.5)
        assert worker.limit.places == 32
        worker.run(0.5, refused=0)


def test_bursts_of_few_requests_are_no_overload() -> None:
    limit = Limit(32)
    for _ in range(20):
        limit.window(10, 40, WINDOW_S)
        limit.window(0, 0, WINDOW_S)
        assert limit.places == 32


def test_who_asks_again_at_once_does_not_keep_them_away() -> None:
    worker = Worker(32, computes)
    worker.run(20)
    for _ in range(700):  # refusals are those of the places that are withheld
        worker.run(WINDOW_S, refused=9 if worker.limit.places < 32 else 0)
    assert worker.limit.places == 32


def test_a_pipeline_that_begins_to_wait_has_them_back() -> None:
    worker = Worker(32, computes)
    worker.run(20)
    worker.takes = waits
    worker.run(350)
    assert worker.limit.places == 32
