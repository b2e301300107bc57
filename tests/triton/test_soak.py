"""A short run of benchmarks/steps/soak.py, whose long one is recorded in its README."""

from __future__ import annotations

import pytest

from benchmarks.steps.soak import soak

MIB = 1 << 20


@pytest.mark.slow
def test_good_and_bad_requests_side_by_side_and_memory_stays() -> None:
    report = soak(20_000)
    assert report.ends.keys() == {"answered", "refused"}
    assert report.ends.total() == 20_000
    assert 100 < report.ends["refused"] < 300
    assert report.grown < 2 * MIB
