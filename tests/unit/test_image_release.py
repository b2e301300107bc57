"""The check of the image's release: the worst of the faults that it has is the one that is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_ensemble.check.engine import check
from triton_ensemble.check.examples import write
from triton_ensemble.check.rules.deployment import PROJECT


@pytest.mark.parametrize(
    ("release", "fault"),
    [
        ("25.06", "run code"),
        ("25.07", "nested JSON"),
        ("26.04", "nested JSON"),
        ("26.05", ""),
        ("26.06", "HTTP header"),
        ("26.08", "HTTP header"),
        ("26.09", ""),
    ],
)
def test_the_worst_fault_of_a_release_is_named(tmp_path: Path, release: str, fault: str) -> None:
    image = f"ARG TRITON_IMAGE=example.org/tritonserver:{release}-py3\n"
    findings = check(write({**PROJECT, "deploy/Dockerfile": image}, tmp_path))
    assert [fault in finding.what for finding in findings] == [True] * bool(fault)
