"""Places while requests are refused, by pipelines of three kinds whose clock is the test's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from triton_ensemble.gateway.limit import Limit

PLACES = 32
Seconds = Callable[[int], float]  # what a request takes where so many are computed at once


class Load:
    """Requests that come as fast as they get places, or as so many clients."""

    def __init__(self) -> None:
        self.now = 0.0
        self.limit = Limit(PLACES, lambda: self.now)

    def run(self, takes: Seconds, clients: int = 1000, seconds: float = 20) -> int:
        """Ask for so long; return the places at the end."""
        end = self.now + seconds
        while self.now < end:
            at_once = min(clients, self.limit.places)
            for _ in range(4 if clients > PLACES else 0):
                self.limit.refused()
            self.now += takes(at_once) / at_once
            self.limit.took(takes(at_once), at_once)
        return self.limit.places


def computes(capacity: float) -> Seconds:
    return lambda at_once: at_once / capacity


def waits(at_once: int) -> float:
    return 0.1


def batches(at_once: int) -> float:
    return 0.005 + 0.0005 * at_once


def test_what_refusals_slow_down_has_fewer_places_until_they_end() -> None:
    load = Load()
    assert load.run(computes(2000), clients=PLACES) == PLACES
    assert 8 <= load.run(computes(600)) <= 12  # as long as 32 took before
    assert load.run(computes(2000), clients=4) == PLACES


def test_there_is_a_least() -> None:
    load = Load()
    load.run(computes(2000), clients=PLACES)
    assert load.run(computes(10)) == PLACES // 8


@pytest.mark.parametrize("takes", [computes(2000), waits, batches])
@pytest.mark.parametrize("clients", [2, 16, PLACES])
def test_what_refusals_do_not_slow_down_keeps_its_places(takes: Seconds, clients: int) -> None:
    load = Load()
    load.run(takes, clients=clients)
    assert load.run(takes) == PLACES


def test_a_load_that_never_was_less_keeps_its_places() -> None:
    assert Load().run(computes(600)) == PLACES


def test_times_before_are_forgotten_where_models_become_slower() -> None:
    load = Load()
    load.run(computes(2000), clients=PLACES)
    load.run(computes(600), clients=PLACES - 8)
    load.run(computes(600), clients=PLACES - 8, seconds=60)
    assert load.run(computes(600)) == PLACES
