"""Is the ensemble able to answer? Sends it one request over HTTP: exit code 0 if it answers, else 1.

    python -m triton_ensemble.serve.container.health --url http://127.0.0.1:8000

A server before release 26.04 may say that it is ready after a model's Python process has died. The
request is samples/probe.json, or else the first of samples/, which it must answer. If all samples are stubs it is zeros,
and a refusal is an answer too. If the server's metrics count answers to others since the last check, nothing is
sent. If they do so while the request waits, the server is busy, and able to answer. Needs Python alone, and
`vendor/project.json` and `samples/` of the project.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.request import Request

from triton_ensemble.facts.project import Project, ProjectError
from triton_ensemble.serve.container import restart
from triton_ensemble.serve.container.inference import (
    fetch_answer_count,
    keep_count,
    one_line,
    problem,
    read_count,
)
from triton_ensemble.serve.container.request import Message, messages

DIED = " is not healthy."  # Triton's words for a model whose Python process has died
AGAIN_S = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the health of a server, print one line, and return the exit status."""
    options = _parser().parse_args(arguments)
    healthy, line = _check_and_record(options) if options.restart_after > 0 else check(options)
    print(line)
    return 0 if healthy else 1


def _check_and_record(options: argparse.Namespace) -> tuple[bool, str]:
    """Return the result of the check, which is repeated at once if a Python process has died, until the server stops."""
    for _ in range(options.restart_after):
        healthy, line = check(options)
        is_stopping = restart.record(healthy, options.restart_after)
        if DIED not in line:
            break
        if is_stopping:
            restart.kill_soon()
            break
        time.sleep(AGAIN_S)
    return healthy, line


def check(options: argparse.Namespace) -> tuple[bool, str]:
    """Return whether the server answers, and what to print."""
    if not options.url.startswith(("http://", "https://")):
        return False, f"--url {options.url} is not an HTTP address; write http://host:port"
    try:
        project = Project.load(options.project)
        requests = [_address(options, each) for each in messages(project)]
    except (ProjectError, ValueError) as error:
        return False, one_line(str(error))
    since = options.since
    now = fetch_answer_count(project, options.metrics)
    before = min(now, read_count(since)) if since else now  # a new server counts from 0
    answers_others = True, f"{project.ensemble} answers others"
    if now > before:
        keep_count(since, now)
        return answers_others
    try:
        reason = _find_problem(project, requests, options.timeout)
    except TimeoutError:
        reason, now = f"not in {options.timeout:g} s", fetch_answer_count(project, options.metrics)
        if now > before:
            keep_count(since, now)
            return answers_others
    keep_count(since, now, own=reason is None)
    if reason is None:
        return True, f"{project.ensemble} answers"
    return False, f"{project.ensemble} does not answer: {reason}"


def _address(options: argparse.Namespace, message: Message) -> Request:
    headers = dict(text.partition("=")[::2] for text in options.header) | message.headers
    return Request(options.url.rstrip("/") + message.path, message.body, headers)


def _find_problem(project: Project, requests: Sequence[Request], timeout_s: float) -> str | None:
    """Return why one of the requests is not answered, or None if all are.

    Raise TimeoutError if they are not answered in time.
    """
    end = time.monotonic() + timeout_s
    problems = (problem(project, each, max(end - time.monotonic(), 1e-3)) for each in requests)
    return next(filter(None, problems), None)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m triton_ensemble.serve.container.health",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--url", default="http://127.0.0.1:8000", help="of Triton's HTTP port")
    add("--timeout", type=float, default=10.0, metavar="SECONDS")
    add("--metrics", default="", metavar="URL", help="of Triton's metrics")
    kept = "keeps the answers that they counted at the last check"
    add("--since", type=Path, metavar="FILE", help=kept)
    opens = "sent along, for a server whose inference API is restricted"
    add("--header", action="append", default=[], metavar="NAME=VALUE", help=opens)
    folder = "of the project, or with its vendor/project.json and samples/; default: this one"
    add("--project", type=Path, default=Path(), metavar="FOLDER", help=folder)
    stops = "in a container: stop process 1 after so many failures in a row; 0, the default: never"
    add("--restart-after", type=int, default=0, metavar="FAILURES", help=stops)
    return parser


if __name__ == "__main__":
    sys.exit(main())
