"""The check compares answers whose order means nothing without their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_ensemble.check import examples
from triton_ensemble.check.rules.engine import check
from triton_ensemble.check.rules.project import PROJECT


@pytest.mark.parametrize(
    ("extras", "lines"),
    [
        ("[gateway, monitoring]", []),
        ("[monitoring, gateway]", []),
        ("[gateway]", [4]),
        ("[gateway, ray]", [4]),
        ("gateway", [4]),
        ("[gateway, {a: b}]", [4]),
    ],
)
def test_extras_are_the_same_in_each_order(tmp_path: Path, extras: str, lines: list[int]) -> None:
    files = {name: str(text) for name, text in PROJECT.items()}
    files[".copier-answers.yml"] += "extras: [monitoring, gateway]\n"
    files["pipeline.yml"] += f"extras: {extras}\n"
    found = check(examples.write(files, tmp_path))
    assert [each.line for each in found] == lines
