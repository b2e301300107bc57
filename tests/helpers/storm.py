"""Many clients, some of whose requests are malformed: what becomes of the good ones."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from storm_clients import Client, GrpcClient, HttpClient, Response
from storm_requests import (
    BAD_STRING,
    BODIES,
    GRPC,
    HTTP,
    MODEL,
    REFUSED_TEXT,
    Row,
    answer,
    inputs,
    malformed,
)
from support import Generate, step, succeed

from triton_ensemble.serve.local.local_triton import LocalTriton

MALFORMED_SHARE = 0.05
# Of the Python backend, to all requests that share a batch with one of BAD_STRING.
INCOMPLETE = b"incomplete string data for inference input"
RIGHT, SHARED, REFUSED = "right", f"failed by another's {BAD_STRING}", "refused with"
LONGEST_TEXT, MAX_ROWS = 10_000, 8
STEPS = {
    "shout": """
    def __call__(self, TEXT):
        lines = text(TEXT)
        if (lines == REFUSED).any():
            raise InvalidRequest("TEXT: is refused; send another")
        return {"LOUD": np.array([[line.upper()] for line in lines.flat], object)}
""",
    "say": """
    def __call__(self, loud, numbers):
        lines = zip(text(loud).flat, numbers.sum(axis=1))
        return {"ANSWER": np.array([[f"{line} {total:.0f}"] for line, total in lines], object)}
""",
}
HEAD = f"""import numpy as np
from triton_step import InvalidRequest, text

REFUSED = "{REFUSED_TEXT}"


class Step:
    def __init__(self, context):
        pass
"""


def answers(batching: bool) -> dict[str, Any]:
    """Return a step that reads a text, and one that reads its output and numbers."""
    return {
        "project_name": MODEL,
        "max_batch_size": MAX_ROWS,
        "tensors": {
            **dict.fromkeys(["TEXT", "LOUD", "ANSWER"], "STRING[1]"),
            "NUMBERS": "FP32[4]",
        },
        "steps": [
            step("shout", ["TEXT"], ["LOUD"], fuse=False, batching=batching),
            step("say", {"loud": "LOUD", "numbers": "NUMBERS"}, ["ANSWER"], fuse=False),
        ],
    }


@contextmanager
def serving(generate: Generate, *, batching: bool = True) -> Iterator[LocalTriton]:
    """Serve the storm's ensemble. Without `batching` the step that reads the text has no dynamic batching."""
    project = generate(**answers(batching))
    for name, code in STEPS.items():
        (project / f"steps/{name}.py").write_text(HEAD + code)
    succeed(project.make("repository"))
    with LocalTriton(project / "model_repository", MODEL) as triton:
        yield triton


class Report:
    """How many requests of each kind had which end."""

    def __init__(self) -> None:
        self.good, self.bad = Counter[str](), Counter[tuple[str, str]]()

    def wrong(self) -> dict[str, int]:
        """Ends of good requests that nothing excuses."""
        return {end: number for end, number in self.good.items() if end not in (RIGHT, SHARED)}

    def not_refused(self) -> dict[tuple[str, str], int]:
        """Kinds and ends of malformed requests that the server did not call so."""
        return {key: n for key, n in self.bad.items() if not key[1].startswith(REFUSED)}


async def end_of(client: Client, body: Any, wanted: bytes | None) -> str:
    """How a request ended; `wanted` is None for one that is malformed."""
    try:
        response = await client.ask(body)
    except ConnectionAbortedError:
        return f"{REFUSED} nothing, as the client had gone"
    except (OSError, asyncio.TimeoutError) as error:
        return f"{type(error).__name__}: {error}"
    return end_of_response(response, wanted)


def end_of_response(response: Response, wanted: bytes | None) -> str:
    if response.right:
        return RIGHT if response.data == wanted else f"answered {response.data[:60]!r}"
    if wanted is None:
        return f"{REFUSED} {response.status}"
    return SHARED if INCOMPLETE in response.data else f"{response.status} {response.data[:200]!r}"


def rows_of(numbers: random.Random) -> list[Row]:
    """Mostly one row, so that many share a batch. Most texts are short, a few have up to `LONGEST_TEXT` characters."""
    return [
        Row(
            f"{i}-" + "é" * int(LONGEST_TEXT ** numbers.random()),
            [numbers.randrange(1000) for _ in range(4)],
        )
        for i in range(numbers.choice([1, 1, 1, 1, 1, 1, 2, MAX_ROWS]))
    ]


async def storming(
    client: Client, protocol: str, seed: int, end: float, kinds: list[str], report: Report
) -> None:
    numbers = random.Random(seed)
    while time.perf_counter() < end:
        rows = rows_of(numbers)
        tensors = inputs(rows)
        if numbers.random() < MALFORMED_SHARE:
            kind = numbers.choice(kinds)
            if body := malformed(kind, protocol, tensors):
                report.bad[kind, await end_of(client, body, None)] += 1
                continue
        report.good[await end_of(client, BODIES[protocol](tensors), answer(rows))] += 1
    await client.close()


async def storm(triton: LocalTriton, seconds: float, clients: int, kinds: Iterable[str]) -> Report:
    """One client in four speaks gRPC; `kinds` are those of the malformed requests."""
    report, end, tasks = Report(), time.perf_counter() + seconds, []
    for i in range(clients):
        client = HttpClient(triton.http_url) if i % 4 else GrpcClient(triton.grpc_url)
        protocol = HTTP if i % 4 else GRPC
        tasks.append(storming(client, protocol, i, end, list(kinds), report))
    await asyncio.gather(*tasks)
    return report
