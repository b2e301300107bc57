"""The marker of a known race of Triton: one rerun for each marked test, three for a run."""

from __future__ import annotations

from pathlib import Path

import pytest

ISSUE = "https://github.com/triton-inference-server/server/issues/1"
# Each test of the file fails in its first run and passes in its second one.
FAILS_ONCE = """
from pathlib import Path
import pytest

@pytest.mark.upstream_race({issue!r})
@pytest.mark.parametrize("number", range({tests}))
def test_it(number):
    seen = Path(__file__).with_name(str(number))
    seen.write_text(seen.read_text() + "." if seen.exists() else ".")
    assert len(seen.read_text()) > {failures}
"""


def run_tests(
    pytester: pytest.Pytester, *options: str, tests: int = 1, failures: int = 1, issue: str = ISSUE
) -> pytest.RunResult:
    """Run marked tests that each fail some times before they pass."""
    pytester.makepyfile(FAILS_ONCE.format(tests=tests, failures=failures, issue=issue))
    return pytester.runpytest("-p", "upstream_race", "-p", "no:cacheprovider", *options)


def test_a_marked_test_that_fails_once_passes(pytester: pytest.Pytester) -> None:
    done = run_tests(pytester)
    assert done.ret == pytest.ExitCode.OK
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*test_it?0?", "1 of at most 3 reruns: allowed", "*1 rerun in*"])


def test_a_marked_test_that_fails_twice_fails(pytester: pytest.Pytester) -> None:
    done = run_tests(pytester, failures=2)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.assert_outcomes(failed=1)


def test_a_test_without_the_marker_runs_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): assert False")
    done = pytester.runpytest("-p", "upstream_race")
    done.assert_outcomes(failed=1)
    assert "of at most" not in done.stdout.str()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "xdist"])
@pytest.mark.parametrize(("tests", "code"), [(3, 0), (4, 1)])
def test_a_run_has_three_reruns(
    pytester: pytest.Pytester, options: tuple[str, ...], tests: int, code: int
) -> None:
    done = run_tests(pytester, *options, tests=tests)
    assert done.ret == code
    done.assert_outcomes(passed=tests)
    done.stdout.fnmatch_lines([f"{tests} of at most 3 reruns: {['allowed', 'too many*'][code]}"])


@pytest.mark.parametrize("issue", ["", "a race", "https://example.com/issues/1"])
def test_the_marker_names_an_issue_of_triton(pytester: pytest.Pytester, issue: str) -> None:
    done = run_tests(pytester, issue=issue)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: *test_it?0?: upstream_race needs the issue*"])


def test_nothing_is_printed_without_a_rerun(pytester: pytest.Pytester) -> None:
    done = run_tests(pytester, failures=0)
    done.assert_outcomes(passed=1)
    assert "of at most" not in done.stdout.str()
    assert Path(pytester.path, "0").read_text() == "."
