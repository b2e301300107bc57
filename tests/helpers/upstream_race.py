"""A pytest plugin: run a test that meets a known race of Triton once more, and count it."""

from __future__ import annotations

import pytest
from _pytest.terminal import TerminalReporter

UPSTREAM = "https://github.com/triton-inference-server/"
LIMIT = 3


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    help = f"upstream_race(issue): if it fails, it runs once more; {UPSTREAM}... says why"
    config.addinivalue_line("markers", help)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a marked test one rerun of pytest-rerunfailures."""
    for mark in item.iter_markers("upstream_race"):
        if len(mark.args) != 1 or not str(mark.args[0]).startswith(UPSTREAM):
            raise pytest.UsageError(f"{item.nodeid}: upstream_race needs the issue, {UPSTREAM}...")
        item.add_marker(pytest.mark.flaky(reruns=1))


def find_reruns(config: pytest.Config) -> list[str]:
    """Return the test of each rerun, of all xdist workers. A worker itself has none."""
    reporter: TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    return [report.nodeid for report in reporter.stats.get("rerun", [])] if reporter else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that needed too many reruns."""
    if len(find_reruns(session.config)) > LIMIT and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Print the tests that ran once more."""
    if reruns := find_reruns(config):
        terminalreporter.section("reruns")
        for test in reruns:
            terminalreporter.line(test)
        verdict = "too many: the run fails" if len(reruns) > LIMIT else "allowed"
        terminalreporter.line(f"{len(reruns)} of at most {LIMIT} reruns: {verdict}")
