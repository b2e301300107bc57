"""Failures that others follow from: told once, by the test that finds one, and what can't pass then is skipped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Cause:
    """Tests that use a fixture can't pass, and why.

    With `model`, as the parameter of contract tests names it: those of this model, and of one that the step shares.
    """

    fixture: str
    why: str
    model: str = ""

    def stops(self, item: pytest.Item) -> bool:
        """Return whether a test can't pass."""
        if self.fixture not in getattr(item, "fixturenames", ()):
            return False
        model = item.callspec.params.get("model") if hasattr(item, "callspec") else None
        return not self.model or self.model == model or self.model.startswith(f"{model}:")


TOLD = pytest.StashKey[list[Cause]]()


def tell(config: pytest.Config, *causes: Cause) -> None:
    """Let tests that can't pass from now on be skipped."""
    config.stash.setdefault(TOLD, []).extend(causes)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that can't pass."""
    for cause in item.config.stash.get(TOLD, []):
        if cause.stops(item):
            pytest.skip(cause.why)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how many tests were skipped for each cause."""
    causes = dict.fromkeys(cause.why for cause in config.stash.get(TOLD, []))
    reports = terminalreporter.getreports("skipped")
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    for why in causes:
        if count := reasons[why]:
            terminalreporter.write_line(f"{count} skipped: {why}")
