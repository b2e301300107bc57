"""Failures that cause others. The test that finds one tells it once, and tests that can't pass then are skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Cause:
    """The reason why tests that use a fixture can't pass.

    With `model`, as the parameter of contract tests names it, only tests of this model and of the model that the step
    shares can't pass.
    """

    fixture: str
    why: str
    model: str = ""

    def stops(self, item: pytest.Item) -> bool:
        """Return whether a test can't pass.

        A `client` that the tests define themselves, without a server, does not count as the fixture.
        """
        needed = {self.fixture, "urls"} if self.fixture == "client" else {self.fixture}
        if not needed.issubset(getattr(item, "fixturenames", ())):
            return False
        model = item.callspec.params.get("model") if hasattr(item, "callspec") else None
        return not self.model or self.model == model or self.model.startswith(f"{model}:")


TOLD = pytest.StashKey[dict[str, list[Cause]]]()  # by the test that failed


def tell(item: pytest.Item, *causes: Cause) -> None:
    """Let tests that can't pass be skipped from now on, if the test that tells the causes fails in the end."""
    item.config.stash.setdefault(TOLD, {}).setdefault(item.nodeid, []).extend(causes)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that can't pass, except the test that says why: it may be run again."""
    for teller, causes in item.config.stash.get(TOLD, {}).items():
        for cause in causes:
            if teller != item.nodeid and cause.stops(item):
                pytest.skip(cause.why)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Forget the causes that a test told if it does not fail.

    It was expected to fail, or passes when it is run again.
    """
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    expected = report.skipped and call.excinfo is not None
    if expected or (report.when == "call" and report.passed):
        item.config.stash.get(TOLD, {}).pop(item.nodeid, None)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how many tests were skipped for each cause."""
    told = config.stash.get(TOLD, {}).values()
    causes = dict.fromkeys(cause.why for each in told for cause in each)
    skipped = (report.longrepr for report in terminalreporter.getreports("skipped"))
    reasons = Counter(why[2].removeprefix("Skipped: ") for why in skipped if isinstance(why, tuple))
    for why in causes:
        if count := reasons[why]:
            terminalreporter.write_line(f"{count} skipped: {why}")
