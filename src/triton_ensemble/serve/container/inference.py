"""One inference over HTTP, whether its answer is one, and what Triton's metrics count of answers to others."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from http.client import BadStatusLine, RemoteDisconnected
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from triton_ensemble.facts.project import Project
from triton_ensemble.serve.container.request import HEADER_LENGTH

DIRECT = build_opener(ProxyHandler({}))  # whatever http_proxy says
METRICS_TIMEOUT_S = 2


def problem(project: Project, request: Request, timeout_s: float) -> str | None:
    """Return why the ensemble does not answer, in one line, or None if it does.

    Raise TimeoutError if it does not answer in time.
    """
    try:
        with DIRECT.open(request, timeout=timeout_s) as response:
            answered = _read_first_event(response) if project.decoupled else _read_names(response)
    except HTTPError as error:
        can_refuse = not project.sample_files() or (project.decoupled and project.sequential)
        if error.code == 400 and can_refuse:
            return None  # a refusal of zeros is an answer too, as is that of a stream that is in no sequence
        return f"status {error.code}: {one_line(error.read(500).decode(errors='replace'))}"
    except TimeoutError:
        raise
    except RemoteDisconnected:
        return "the connection was closed"
    except BadStatusLine:
        return f"{request.host} does not answer HTTP; is that the gRPC port?"
    except Exception as error:  # whatever it is, there is no answer
        return f"{type(error).__name__}: {one_line(str(error))}"
    missing = [] if answered is None else [o for o in project.outputs if o not in answered]
    return f"its answer lacks {', '.join(missing)}" if missing else None


def one_line(text: str) -> str:
    """Return a text with each run of white space as one blank."""
    return " ".join(text.split())


def _read_names(response: Any) -> set[str]:
    """Return the names of an answer's outputs."""
    body, length = response.read(), response.headers.get(HEADER_LENGTH)
    header = json.loads(body[: int(length)] if length else body)
    return {output["name"] for output in header["outputs"]}


def _read_first_event(response: Any) -> set[str] | None:
    """Return the outputs of a stream's first answer, or None for an empty stream.

    The stream may go on for long, so only its first answer is read. Raise ValueError if that answer is an error.
    """
    for line in response:
        if line.startswith(b"data: "):
            answer: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
            if "error" in answer:
                raise ValueError(answer["error"])
            return {*answer}
    return None


def fetch_answer_count(project: Project, metrics_url: str) -> float:
    """Return how many requests the ensemble has answered, or 0 without metrics that can be read."""
    if not metrics_url:
        return 0
    try:
        with DIRECT.open(metrics_url, timeout=METRICS_TIMEOUT_S) as response:
            return count_answers(project, response.read().decode())
    except OSError:
        return 0


def count_answers(project: Project, metrics: str) -> float:
    """Return how many requests the ensemble has answered, by the text of Triton's metrics."""
    own = [line for line in metrics.splitlines() if f'model="{project.ensemble}",' in line]
    counts = [line for line in own if line.startswith("nv_inference_request_success{")]
    return sum(float(line.rpartition(" ")[2]) for line in counts)


def read_count(file: Path) -> float:
    """Return the count that the last check kept in a file, or infinity if it kept none."""
    try:
        return float(file.read_text())
    except (OSError, ValueError):  # the first check; a full disk
        return math.inf


def keep_count(file: Path | None, count: float, *, own: bool = False) -> None:
    """Keep a count in a file, if there is one, for the next check, with the check's own answer, which Triton may count later.

    A count of 0, as without metrics, replaces no other.
    """
    with suppress(OSError):
        if file and (count or not file.exists()):
            file.write_text(str(count + own))
