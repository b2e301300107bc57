"""Pipelines that are attacked, garbage for their routes, and what a gateway does meanwhile.

`pytest -s tests/triton/gateway/test_gateway_attacks.py` sends it and prints a row for each kind.
"""

from __future__ import annotations

import gzip
import http.client
import random
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from support import step

MIB = 1 << 20
KEY = "secret"
JSON = "application/json"
FORM = 'Content-Type: multipart/form-data; boundary="x"'
DEPTHS = (33, 100, 255, 500, 900, 1000, 1020, 1024, 1100)
LARGE = 2_600_000  # numbers of an answer of 10 MB
IMPORT = "from triton_ensemble.gateway import Pipeline\n"
MINE = """

@router.post("/mine")
async def mine(pipeline: Pipeline, texts: list[str]) -> int:
    return len((await pipeline(TEXT=[[text] for text in texts]))["VECTOR"])
"""
LETTERS = '''
import numpy as np


class Step:
    """Answer the text, and as many numbers as SIZE says."""

    def __init__(self, context):
        pass

    def __call__(self, TEXT, QUERY=None, SIZE=None, NUMBERS=None, TEXTS=None):
        size = 3 if SIZE is None else int(SIZE[0, 0])
        vector, score = (np.zeros((len(TEXT), n), np.float32) for n in (size, 1))
        return {"SAID": TEXT, "VECTOR": vector, "SCORE": score}
'''
WORDS = '''
import time

import numpy as np


class Step:
    """Answer a text; stream 10 MB at a time if it is large."""

    def __init__(self, context):
        pass

    def __call__(self, text_input):
        is_large = text_input[0] == b"large"
        time.sleep(0.05 * is_large)
        for _ in range(1 + is_large):
            yield {"text_output": np.array(["a" * (10_000_000 if is_large else 9)], object)}
'''
MY_OWN = {"extras": ["gateway"], "starting_pipeline": "my-own"}
TENSORS = {
    "TEXT": "STRING[1]",
    "QUERY": {"type": "STRING", "dims": [1], "optional": True},
    "SIZE": {"type": "INT32", "dims": [1], "optional": True},
    "NUMBERS": {"type": "INT32", "dims": [-1, -1], "optional": True},
    "TEXTS": {"type": "STRING", "dims": [-1, -1], "optional": True},
    "SAID": "STRING[1]",
    "VECTOR": "FP32[-1]",
    "SCORE": "FP32[1]",
}


class Target(NamedTuple):
    """A pipeline of one step, its code, and its routes: a body of each, with a place for a value."""

    name: str
    code: str
    answers: dict[str, Any]
    routes: dict[str, bytes]
    large: dict[str, bytes]  # bodies whose answers have 10 MB


TARGETS = [
    Target(
        "letters",
        LETTERS,
        {
            **MY_OWN,
            "tensors": TENSORS,
            "steps": [step("step0", list(TENSORS)[:5], list(TENSORS)[5:])],
            "openai": {
                "embeddings": {"input": "TEXT", "output": "VECTOR", "dimensions": "SIZE"},
                "rerank": {"query": "QUERY", "document": "TEXT", "score": "SCORE"},
                "classify": {"input": "TEXT", "probabilities": "VECTOR"},
            },
        },
        {
            "/predict": b'{"TEXT": %s}',
            "/predict?numbers": b'{"TEXT": "a", "NUMBERS": [%s]}',
            "/predict?texts": b'{"TEXT": "a", "TEXTS": [%s]}',
            "/v1/embeddings": b'{"input": %s}',
            "/v1/rerank": b'{"query": "a", "documents": %s}',
            "/v1/classify": b'{"input": %s}',
            "/mine": b"%s",
            "/metrics": b"%s",
        },
        {
            "/predict": b'{"TEXT": ["a"], "SIZE": [%d]}' % LARGE,
            "/v1/embeddings": b'{"input": "a", "dimensions": %d}' % LARGE,
        },
    ),
    Target(
        "words",
        WORDS,
        {
            **MY_OWN,
            "max_batch_size": 0,
            "tensors": {"text_input": "STRING[1]", "text_output": "STRING[1]"},
            "steps": [{**step("step0", ["text_input"], ["text_output"]), "decoupled": True}],
        },
        {"/predict": b'{"text_input": %s}', "/v1/completions": b'{"prompt": "a", "stop": %s}'},
        {
            "/predict": b'{"text_input": ["large"]}',
            "/v1/completions": b'{"prompt": "large", "stream": true}',
        },
    ),
]


def add_code(target: Target, folder: Path) -> None:
    """Write the code of a target's step and of its own route into its project."""
    (folder / "steps/step0.py").write_text(target.code)
    if "/mine" in target.routes:
        routes = folder / "gateway/routes.py"
        lines = routes.read_text().replace("import APIRouter", f"import APIRouter\n\n{IMPORT}")
        routes.write_text(lines + MINE)


def post(path: str, body: bytes, *headers: str) -> bytes:
    """Return a request, after which the connection ends."""
    lines = [f"POST {path} HTTP/1.1", "Host: a", f"X-API-Key: {KEY}", *headers]
    lines += ["Connection: close", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def form(path: str, *values: bytes, text: bytes = b"a") -> bytes:
    """Return a form of a text, and of NUMBERS with these values."""
    head = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    parts = [head % (b"TEXT", text), *(head % (b"NUMBERS", value) for value in values)]
    return post(path, b"".join(parts) + b"--x--\r\n", FORM)


def nest(begin: bytes, end: bytes, depth: int) -> bytes:
    """Return JSON of a value in so many lists or objects."""
    return begin * depth + b"1" + end * depth


def garbage(path: str, around: bytes) -> dict[str, Callable[[], bytes]]:
    """Return what makes a request of each small kind of garbage for a route."""
    json_, draw = f"Content-Type: {JSON}", random.Random(0)
    head = b'Content-Disposition: form-data; name="TEXT"\r\n'
    parts = [b"--x\r\n", head, b"\r\n", b"a", b"--x--"]
    values = [
        b"null",
        b"true",
        b"1",
        b'"a"',
        b"{}",
        b"[null]",
        b'[["a", 1, {}]]',
        b'[{"base64": "!"}]',
    ]
    numbers = [b"1e999", b"-1e-999", b"9" * 5000, b"[%s]" % (b"9" * 400), b"[[1e400]]", b"NaN"]
    good = around % b'["a text"]'

    def text(value: bytes) -> bytes:
        return post(path, around % value, json_)

    return {
        "random bytes": lambda: post(path, draw.randbytes(1000), json_),
        "truncated JSON": lambda: post(path, good[: draw.randrange(len(good))], json_),
        "nested lists": lambda: text(nest(b"[", b"]", draw.choice(DEPTHS))),
        "nested objects": lambda: text(nest(b'{"a":', b"}", draw.choice(DEPTHS))),
        "nested base64": lambda: text(b'[{"base64":%s}]' % nest(b"[", b"]", draw.choice(DEPTHS))),
        "a form of nested lists": lambda: form(path, nest(b"[", b"]", draw.choice(DEPTHS))),
        "deep nesting": lambda: text(b"[" * 10_000 + b"]" * draw.choice([0, 10_000])),
        "1,000 empty lists": lambda: text(b"[%s[]]" % (b"[]," * 1000)),
        "wrong types": lambda: text(draw.choice(values)),
        "huge numbers": lambda: text(draw.choice(numbers)),
        "broken multipart": lambda: post(path, b"".join(draw.choices(parts, k=9)), FORM),
        "gzip": lambda: post(path, gzip.compress(good), json_, "Content-Encoding: gzip"),
        "no Content-Type": lambda: post(path, draw.randbytes(100)),
        "half a head": lambda: post(path, good)[: draw.randrange(1, 60)],
        "pipelined": lambda: post(path, good, json_).replace(b"Connection: close\r\n", b"") * 2,
    }


def floods(path: str, around: bytes) -> dict[str, Callable[[], bytes]]:
    """Return what makes a large request of each kind for a route."""
    json_ = f"Content-Type: {JSON}"

    def fill(value: bytes, count: int) -> bytes:
        return post(path, around % (b"[%s%s]" % ((value + b",") * count, value)), json_)

    def chunks() -> bytes:
        head = post(path, b"", json_, "Transfer-Encoding: chunked")
        chunk = b"%x\r\n%s\r\n" % (MIB, b" " * MIB)
        return head.replace(b"Content-Length: 0\r\n", b"") + chunk * 65 + b"0\r\n\r\n"

    return {
        "empty lists, 4 MB": lambda: fill(b"[]", 1_400_000),
        "empty lists, 66 MB": lambda: fill(b"[]", 22_000_000),
        "nulls, 5 MB": lambda: fill(b"null", 1_000_000),
        "nulls, 66 MB": lambda: fill(b"null", 13_200_000),
        "above the limit": lambda: post(path, b" " * (65 * MIB), json_),
        "chunks above the limit": chunks,
        "300 MB without a key": lambda: post(path, b" " * (300 * MIB)).replace(
            KEY.encode(), b"none"
        ),
    }


def heavy(path: str, around: bytes) -> dict[str, Callable[[], bytes]]:
    """Return what makes a request of each kind that takes long to read for its size."""
    json_ = f"Content-Type: {JSON}"

    def fill(value: bytes, size: int) -> bytes:
        return b"[%s%s]" % ((value + b",") * (size // (len(value) + 1)), value)

    def keys(count: int, end: bytes = b"") -> bytes:
        names = (b'"%07x%s":0' % (i, end) for i in range(count))
        return post(path, b"{%s}" % b",".join(names), json_)

    def lists(value: bytes, size: int) -> bytes:
        return post(path, around % fill(value, size), json_)

    def chunks() -> bytes:
        head, _, body = lists(b"1", 1_000_000).partition(b"\r\n\r\n")
        head = head.replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nX")
        bytes_ = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        return head + b"\r\n\r\n" + bytes_ + b"0\r\n\r\n"

    return {
        "chunks of a byte, 6 MB": chunks,
        "keys, 49 MB": lambda: keys(4_000_000),
        "keys, 11.5 MB": lambda: keys(960_000),
        "keys, 5.6 MB": lambda: keys(470_000),
        "keys that end in a backslash, 14.6 MB": lambda: keys(1_040_000, b"\\\\"),
        "lists of a number, 5.7 MB": lambda: lists(b"[1]", 5_700_000),
        "numbers, 5.6 MB": lambda: lists(fill(b"1", 5_600_000), 0),
        "numbers, 2.8 MB": lambda: lists(fill(b"1", 2_800_000), 0),
        "numbers and true, 2.8 MB": lambda: lists(fill(b"1", 2_800_000)[:-1] + b",true]", 0),
        "floats, 11 MB": lambda: lists(fill(b"0.1", 11_300_000), 0),
        "floats, 5.6 MB": lambda: lists(fill(b"0.1", 5_600_000), 0),
        "nulls, 2 MB": lambda: lists(b"null", 1_900_000),
        "nulls, 0.6 MB": lambda: lists(b"null", 560_000),
        "texts, 8.5 MB": lambda: lists(fill(b'""', 8_500_000), 0),
        "texts, 0.9 MB": lambda: lists(fill(b'""', 900_000), 0),
        "a text of base64, 16 MB": lambda: lists(b'{"base64":"%s"}' % (b"A" * 16_000_000), 0),
        "texts of base64, 5.4 MB": lambda: lists(fill(b'{"base64":""}', 5_400_000), 0),
        "texts of base64, 2.5 MB": lambda: lists(fill(b'{"base64":""}', 2_500_000), 0),
        "objects, 3.1 MB": lambda: lists(fill(b'{"a":0}', 3_100_000), 0),
        "nested lists, 5.6 MB": lambda: lists(nest(b"[", b"]", 900), 5_600_000),
        "a form of lists, 60 MB": lambda: form(path, fill(b"[]", 60_000_000)),
        "a form of 64 lists, 9 MB": lambda: form(path, *[fill(b"1", 140_000)] * 64),
        "a form of a text to escape, 60 MB": lambda: form(path, text=b"\0" * 60_000_000),
        "a form of a million parts": lambda: form(path, *[b""] * 1_000_000),
    }


def send(port: int, data: bytes) -> str:
    """Send bytes and nothing more, and return the status, or - if the connection ends without one."""
    with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=90) as to:
        with suppress(ConnectionError):
            to.sendall(data)
            if b"\r\n\r\n" not in data:
                to.shutdown(socket.SHUT_WR)
        answer = to.recv(12)
        while to.recv(MIB):
            pass
        return answer[9:].decode() or "-"
    return "-"


@contextmanager
def unread(port: int, requests: Iterable[bytes]) -> Iterator[Counter[str]]:
    """Send requests, read only the status of each answer, and yield the statuses while the connections are open."""
    with ExitStack() as stack:
        seen: Counter[str] = Counter()
        for data in requests:
            to = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=90))
            to.sendall(data)
            seen[to.recv(12)[9:].decode() or "-"] += 1
        yield seen


def memory_mib(pid: int, field: str = "VmRSS") -> float:
    """Return what a process holds. VmHWM is the most since it was reset."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(rf"{field}:\s*(\d+)", status)[0]) / 1024


class Wait(NamedTuple):
    """The time of an answer of /healthz, and how much processor time the gateway took meanwhile."""

    seconds: float = 0.0
    cpu_s: float = 0.0


@contextmanager
def watched(port: int, pid: int) -> Iterator[list[Wait]]:
    """Ask /healthz of a gateway of one process each 20 ms, and list how long each answer took.

    The longest processor time is how long the loop stood still, also on a machine that is busy otherwise.
    """
    waits, end = [Wait()], Event()
    clock = (~pid << 3) | 2  # of a process: CPUCLOCK_SCHED in linux/include/linux/posix-timers.h

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while not end.wait(0.02):
            began, cpu_s = time.perf_counter(), time.clock_gettime(clock)
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b'{"status":"alive"}'
            waits.append(Wait(time.perf_counter() - began, time.clock_gettime(clock) - cpu_s))
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            yield waits
        finally:
            end.set()
    asking.result()
