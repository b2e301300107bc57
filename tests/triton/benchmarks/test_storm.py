"""Storms of good and malformed requests. docs/pipeline.md has what a longer one found."""

from __future__ import annotations

import asyncio

import pytest
from storm import RIGHT, SHARED, serving, storm
from storm_requests import BAD_STRING, KINDS
from support import Generate


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batching", "kinds", "ends"),
    [
        (True, [kind for kind in KINDS if kind != BAD_STRING], {RIGHT}),
        (True, [BAD_STRING], {RIGHT, SHARED}),
        (False, KINDS, {RIGHT}),
    ],
    ids=["batches", "batches and bad strings", "no batches"],
)
def test_malformed_requests_leave_others_alone(
    generate: Generate, batching: bool, kinds: list[str], ends: set[str]
) -> None:
    """A bad string alone fails others, those of its batch. Without batches, none."""
    with serving(generate, batching=batching) as triton:
        report = asyncio.run(storm(triton, 4, 50, kinds))
    assert {*report.good} == ends, report.wrong()
    assert not report.not_refused()
    assert report.bad.keys() >= {(kind, "refused with 400") for kind in kinds if kind == BAD_STRING}
