"""`make tune`: how it chooses the number of callers, searches, and says what it found."""

from __future__ import annotations

import dataclasses
import math
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from triton_ensemble.measure.concurrency import Probe, level_to_tune, window_s
from triton_ensemble.measure.figures import Level, Load
from triton_ensemble.measure.saturation import measure_saturation, saturation_point
from triton_ensemble.measure.trials import (
    Objective,
    RefusedError,
    TooShortError,
    Trial,
    is_beyond_noise,
    table,
)
from triton_ensemble.measure.tune_search import Search
from triton_ensemble.measure.tune_settings import Setting, Settings

INSTANCES = Setting("instances", ("net",), (("steps", 0),), 1, (1, 2, 4))
BATCHING = Setting("batching", ("net",), (("steps", 0),), True, (False, True))
SETTINGS = [INSTANCES, BATCHING]


def searched(
    speed: Callable[[Settings], float],
    refused: Callable[[Settings], bool] = lambda _: False,
    noise: float = 0.1,
    objective: Objective | None = None,
) -> tuple[Settings, Search]:
    """Return what a search finds where settings have a throughput, and each measurement some noise."""
    chance = random.Random(1)

    def measure(settings: Settings, _: float) -> Load:
        throughput = speed(settings) * math.exp(chance.gauss(0, noise))
        p50 = 8e6 / throughput
        return Load(8, throughput, p50, 2 * p50, 3 * p50)

    def accept(settings: Settings) -> None:
        if refused(settings):
            raise RefusedError("it fails")

    deadline = time.monotonic() + 60
    search = Search(objective or Objective(), measure, accept, deadline, 0.0, lambda _: None)
    return search.run(SETTINGS), search


def fast_with_four(settings: Settings) -> float:
    return 100 * float(settings.get(INSTANCES, 1)) * (1.5 if settings.get(BATCHING) is False else 1)


def test_the_search_finds_what_is_far_better() -> None:
    for objective in (Objective(), Objective(p99_us=1e5)):
        settings, _ = searched(fast_with_four, objective=objective)
        assert settings == {INSTANCES: 4, BATCHING: False}


def test_the_present_settings_stay_where_all_are_equal() -> None:
    assert [searched(lambda _: 100.0)[0] for _ in range(5)] == [{}] * 5


def test_what_fails_a_smoke_test_is_never_kept() -> None:
    settings, search = searched(fast_with_four, refused=lambda s: s.get(INSTANCES) == 4)
    assert settings.get(INSTANCES) != 4
    assert settings[BATCHING] is False
    assert "it fails" in {trial.refused for trial in search.trials}


def test_nothing_is_kept_that_is_over_the_limit() -> None:
    """More instances are faster, and their p99 is too high."""

    def measured(settings: Settings, _: float) -> Load:
        count = settings.get(INSTANCES, 1)
        return Load(8, 100 * count, 1e4 / count, 1e4, 2e4 if count == 1 else 2e6)

    search = Search(
        Objective(p99_us=1e5), measured, lambda _: None, time.monotonic() + 9, 0.0, lambda _: None
    )
    assert search.run([INSTANCES]) == {}


def test_a_search_ends_in_time() -> None:
    start = time.monotonic()

    def measured(settings: Settings, seconds: float) -> Load:
        time.sleep(seconds)
        return Load(8, fast_with_four(settings), 1.0, 1.0, 1.0)

    search = Search(Objective(), measured, lambda _: None, start + 2, 0.02, lambda _: None)
    search.run(SETTINGS * 9)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(
    ("gains", "is_gain"),
    [([0.1, 0.11, 0.1, 0.09], True), ([0.5, -0.4, 0.3, -0.2], False), ([0.01] * 4, False)],
)
def test_noise(gains: list[float], is_gain: bool) -> None:
    assert is_beyond_noise(gains) is is_gain


def test_the_time_that_is_given_makes_longer_windows() -> None:
    def longest_window(seconds: float) -> float:
        asked: list[float] = []

        def measured(_: Settings, window: float) -> Load:
            asked.append(window)
            return load()

        Search(Objective(), measured, print, time.monotonic() + seconds, 0.1, print).run(SETTINGS)
        return max(asked)

    assert longest_window(20) < longest_window(100)


@pytest.mark.parametrize(("seconds", "tried"), [(0.0, set()), (60.0, set(SETTINGS))])
def test_a_search_says_what_it_could_not_try(seconds: float, tried: set[Setting]) -> None:
    deadline = time.monotonic() + seconds
    search = Search(Objective(), lambda *_: load(), print, deadline, 0.1, lambda _: None)
    assert search.run(SETTINGS) == {}
    assert search.tried == tried
    assert search.seconds(SETTINGS) > search.seconds(SETTINGS[:1]) > 0


def load(throughput: float = 100.0, p50_ms: float = 1.0, p99_ms: float = 2.0, **more: Any) -> Load:
    return Load(8, throughput, p50_ms * 1e3, p50_ms * 1e3, p99_ms * 1e3, **more)


def level(concurrency: int, throughput: float, p99_ms: float = 2.0, **more: Any) -> Level:
    of = dataclasses.replace(load(throughput, p99_ms / 2, p99_ms, **more), concurrency=concurrency)
    return Level(of, [], 1000.0, None)


LIMIT = Objective(p99_us=20_000)


@pytest.mark.parametrize(
    ("new", "old", "said"),
    [
        ([load(errors={"no": 1})], [load()], "requests failed in one run"),
        ([load(0.0)] * 4, [load()] * 4, "requests failed"),
        ([load(80.0)], [load()], "20% behind in one run"),
        ([load(120.0)], [load()], "20% ahead in one run: not confirmed"),
        ([load(80.0)] * 4, [load()] * 4, "20% behind"),
        ([load(102.0)] * 4, [load()] * 4, "2% ahead: within noise"),
    ],
)
def test_why_settings_are_out(new: list[Load], old: list[Load], said: str) -> None:
    assert Objective().why_not(new, old) == said


def test_the_limit_comes_before_the_p50() -> None:
    over, within, slow = load(p50_ms=1, p99_ms=25), load(p50_ms=5, p99_ms=15), load(p99_ms=30)
    assert LIMIT.gains([within], [over])[0] > 0 > LIMIT.gains([over], [within])[0]
    assert LIMIT.gains([over], [slow])[0] > 0
    assert LIMIT.gains([load(p50_ms=4)], [within]) == pytest.approx([math.log(5 / 4)])
    assert LIMIT.why_not([over] * 2, [within] * 2) == "p99 over the limit"


def test_settings_that_keep_a_limit_by_chance_lose_to_those_that_always_do() -> None:
    edge = [load(p99_ms=p99) for p99 in (19, 22, 21, 23)]
    assert is_beyond_noise(LIMIT.gains([load(p99_ms=10)] * 4, edge))


def test_the_table_says_why_a_row_is_out() -> None:
    best: Settings = {INSTANCES: 4}
    trials = [
        Trial({}, [load()], behind="overtaken"),
        Trial(best, [load(300.0)] * 3, behind="9% ahead: within noise"),
        Trial({INSTANCES: 2}, [load(400.0)], refused="it fails", behind="overtaken"),
    ]
    assert [line.split("  ", 1)[-1].strip() for line in table(trials, best)[1:]] == [
        "100.0     1.00     2.00     1  as they are  (overtaken)",
        "300.0     1.00     2.00     3  net.instances: 4  <- best",
        "400.0     1.00     2.00     1  net.instances: 2  (refused: it fails)",
    ]


def test_as_few_callers_as_are_served_most() -> None:
    levels = [level(1, 100), level(2, 970), level(4, 1000), level(8, 990)]
    assert saturation_point(levels).load.concurrency == 2


# Throughput and p99 by the number of callers.
SERVED = {1: (360.0, 9.7), 2: (730.0, 9.8), 4: (945.0, 17.7), 8: (990.0, 26.0), 16: (1400.0, 31.0)}


def chosen(objective: Objective, concurrency: int | None = None) -> tuple[int, list[int]]:
    """Return how many callers, and those of the levels that were measured for it."""
    asked: list[int] = []

    def measure(callers: int, _: float) -> Level:
        asked.append(callers)
        return level(callers, *SERVED.get(callers, (1400.0, 60.0)))

    probe = Probe(measure, time.monotonic() + 60, 0.1)
    return level_to_tune(probe, objective, concurrency).load.concurrency, asked


@pytest.mark.parametrize(
    ("objective", "concurrency", "callers", "most"),
    [
        (Objective(), None, 16, 128),
        (LIMIT, None, 4, 32),
        (Objective(p99_us=1000), None, 1, 4),
        (LIMIT, 8, 8, 8),
    ],
)
def test_how_many_callers(
    objective: Objective, concurrency: int | None, callers: int, most: int
) -> None:
    number, asked = chosen(objective, concurrency)
    assert (number, asked[-1]) == (callers, most)


def test_levels_increase_until_three_bring_no_more() -> None:
    levels = measure_saturation(lambda callers: level(callers, min(callers, 4)))
    assert [level.load.concurrency for level in levels] == [1, 2, 4, 8, 16, 32]


def test_a_level_whose_requests_fail_is_not_tuned_at() -> None:
    probe = Probe(lambda n, _: level(n, 9.0, errors={"no": 2}), time.monotonic() + 9, 0.1)
    with pytest.raises(RuntimeError, match=r"^2 requests failed: no; see `make bench`$"):
        level_to_tune(probe, Objective(), 8)


def test_levels_are_as_long_as_their_latency_asks_for() -> None:
    """Within 0.1 s nothing is answered."""
    asked: list[float] = []

    def measure(callers: int, seconds: float) -> Level:
        asked.append(seconds)
        return level(callers, 5.0, p99_ms=600) if seconds > 0.2 else level(callers, 0.0, p99_ms=0)

    probe = Probe(measure, time.monotonic() + 60, 0.1)
    assert window_s(probe(1)) == pytest.approx(3 * 0.3)
    probe(2)
    assert asked == pytest.approx([0.1, 0.6, 0.9])


def test_no_level_begins_that_would_end_too_late() -> None:
    with pytest.raises(TooShortError):
        Probe(lambda n, _: level(n, 9.0), time.monotonic() + 1, 2.0)(1)
