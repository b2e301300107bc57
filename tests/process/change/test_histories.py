"""Random histories of a project: no change loses a line of its owner.

What is owned stays as its owner left it. A managed file becomes what `git merge-file` makes of the owner's edits
and the template's change, so a conflict is named only where both changed the same lines. Where a managed file goes or
moves, each line of its owner's is somewhere else, and the file is named. A change that fails or is killed leaves nothing.
Without a conflict or a file that moves, `copier update` by hand gives the same files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from histories import FIGURES, Fresh, History, versions

# More, and others: HISTORIES=300 SEED=7 python -m pytest tests/process/change/test_histories.py
HISTORIES = int(os.environ.get("HISTORIES", "5"))
SEED = os.environ.get("SEED", "0")


@pytest.fixture(scope="module")
def fresh(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh]:
    """Return what makes projects. Say in the end what was tried, for `pytest -s`."""
    origin = versions(template, tmp_path_factory.mktemp("versions") / "template")
    yield Fresh(origin, tmp_path_factory.mktemp("fresh"))
    print(f"\nseed {SEED}: {dict(FIGURES)}")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(HISTORIES))
@pytest.mark.parametrize(
    ("move", "times"), [(History.go, 12), (History.update_both_ways, 3)], ids=["lines", "copier"]
)
def test_no_line_is_lost(
    move: Callable[[History], None], times: int, number: int, fresh: Fresh, tmp_path: Path
) -> None:
    history = History(fresh, tmp_path / "p", Random(f"{SEED} {number}"))
    try:
        for _ in range(times):
            move(history)
    except AssertionError as error:
        raise AssertionError("\n".join([*history.log, str(error)])) from error
    FIGURES["histories"] += 1
    shutil.rmtree(history.project.path)
