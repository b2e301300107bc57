"""Random histories of a project: no update loses a line of its owner.

What is owned stays as its owner left it; a managed file becomes what `git merge-file` makes of the owner's edits
and the template's change, so a conflict is marked only where both changed the same lines. Where a managed file goes or
moves, each line of its owner's is somewhere else, and the file is named. An update that fails or is killed leaves nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from histories import FIGURES, Fresh, History, events, versions
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

# More, and others: HISTORIES=1000 SEED=7 python -m pytest -m slow tests/process/test_histories.py
HISTORIES = int(os.environ.get("HISTORIES", 5))
SEED = int(os.environ.get("SEED", 0))


@pytest.fixture(scope="module")
def origin(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return versions(template, tmp_path_factory.mktemp("versions") / "template")


@pytest.fixture(scope="module", autouse=True)
def _figures() -> Iterator[None]:
    """Say what was tried, for `pytest -s`."""
    yield
    print(f"\nseed {SEED}: {dict(FIGURES)}")


@pytest.fixture(scope="module")
def fresh(origin: Path, tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    return Fresh(origin, tmp_path_factory.mktemp("fresh"))


@pytest.mark.slow
@seed(SEED)
@settings(
    max_examples=HISTORIES,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(done=st.lists(events, min_size=2, max_size=10))
def test_no_line_is_lost(
    done: list[tuple[Any, ...]],
    fresh: Fresh,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("history")
    try:
        history = History(fresh, folder / "p")
        for event, *details in [*done, ("update", "v1.3.0")]:
            getattr(history, event)(*details)
    finally:
        shutil.rmtree(folder)
    FIGURES["histories"] += 1
