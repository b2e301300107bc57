"""A short run of benchmarks/peers, whose long one is recorded in its README."""

from __future__ import annotations

import shutil
import sys

import pytest
from support import ROOT, run, succeed

from benchmarks.peers.__main__ import SHORT
from benchmarks.peers.works import differs


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk, which loads the servers, is not here")
def test_the_short_form_measures_servers_that_answer_alike() -> None:
    """A server with another answer would have "not measured" in its row."""
    printed = succeed(
        run(
            *(sys.executable, "-m", "benchmarks.peers", "--short"),
            cwd=ROOT,
            PYTHONPATH=str(ROOT / "src"),
        )
    )
    rows = {line.split(" | ")[0].strip("| "): line for line in printed.splitlines()}
    for peer in SHORT:
        throughput = rows[peer].split(" | ")[1]
        assert float(throughput) > 0, rows[peer]
    steps, files, *_ = rows["3"].strip("| ").split(" | ")
    assert (int(steps), int(files) > 30) == (3, True)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"LABEL": ["7"], "SCORE": [0.50001]}, ""),
        ({"LABEL": ["7"], "SCORE": [0.6]}, r"SCORE is [0.6] and not [0.5]"),
        ({"LABEL": ["1"], "SCORE": [0.5]}, 'LABEL is ["1"] and not ["7"]'),
        ({"LABEL": ["7"]}, "has LABEL and not LABEL, SCORE"),
    ],
)
def test_another_answer_is_told(answer: dict[str, list[object]], told: str) -> None:
    assert differs(answer, {"LABEL": ["7"], "SCORE": [0.5]}) == told
