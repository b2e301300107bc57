"""A cause is told once, and hides no failure: whatever the tests are marked with, and whoever runs them again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support import SOURCES, run

CONFTEST = """
import pytest
from triton_ensemble.testing.causes import Cause, tell

pytest_plugins = ["triton_ensemble.testing.causes"]


@pytest.fixture
def urls(): ...


@pytest.fixture
def client(urls): ...


@pytest.fixture
def broken(request):
    def fail():
        tell(request.node, Cause("client", "step work fails"))
        pytest.fail("it does")
    return fail
"""
LIVE = "def test_live(client): raise AssertionError\n"
BROKEN = "def test_step(broken): broken()\n\n\n"
XFAIL = f"import pytest\n\n\n@pytest.mark.xfail\n{BROKEN}"
AGAIN = """
import pytest
from _pytest.runner import runtestprotocol


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    if item.name != "test_step":
        return None
    runtestprotocol(item, log=False)
    item._initrequest()
    runtestprotocol(item, log=True)
    return True
"""
OWN = "import pytest\n\n\n@pytest.fixture\ndef client(): ...\n\n\n"
ONCE = "TIMES = []\n\n\ndef test_step(broken):\n    TIMES.append(1)\n    if len(TIMES) == 1:\n        broken()\n\n\n"


def ran(folder: Path, code: str, conftest: str) -> tuple[int, str]:
    """Return the exit code and the counts of a run of pytest."""
    (folder / "conftest.py").write_text(CONFTEST + conftest)
    (folder / "test_it.py").write_text(code)
    command = ("-m", "pytest", "--tb=no", "-p", "no:cacheprovider", "-p", "no:warnings")
    done = run(sys.executable, *command, cwd=folder, PYTHONPATH=str(SOURCES))
    counts = done.stdout.strip().rpartition("\n")[2].strip("= ")
    return done.returncode, counts.partition(" in ")[0]


@pytest.mark.parametrize(
    ("code", "again", "counts"),
    [
        (BROKEN + LIVE, "", "1 failed, 1 skipped"),
        (XFAIL + LIVE, "", "1 failed, 1 xfailed"),
        (OWN + BROKEN + LIVE, "", "2 failed"),
        (BROKEN + LIVE, AGAIN, "1 failed, 1 skipped"),
        (ONCE + LIVE, AGAIN, "1 failed, 1 passed"),
    ],
    ids=["skipped", "expected", "own client", "again", "passes when run again"],
)
def test_a_run_fails(tmp_path: Path, code: str, again: str, counts: str) -> None:
    assert ran(tmp_path, code, again) == (1, counts)
