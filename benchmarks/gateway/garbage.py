"""Pipelines that are attacked, and garbage for their routes."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.generation import step

MIB = 1 << 20
KEY = "secret"
JSON = "application/json"
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
    """Answer as many numbers as SIZE says."""

    def __init__(self, context):
        pass

    def __call__(self, TEXT, QUERY=None, SIZE=None):
        size = 3 if SIZE is None else int(SIZE[0, 0])
        return {"VECTOR": np.zeros((len(TEXT), size), np.float32), "SCORE": np.zeros((len(TEXT), 1), np.float32)}
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
            "steps": [step(0, ["TEXT", "QUERY", "SIZE"], ["VECTOR", "SCORE"])],
            "openai": {
                "embeddings": {"input": "TEXT", "output": "VECTOR", "dimensions": "SIZE"},
                "rerank": {"query": "QUERY", "document": "TEXT", "score": "SCORE"},
                "classify": {"input": "TEXT", "probabilities": "VECTOR"},
            },
        },
        {
            "/predict": b'{"TEXT": %s}',
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
            "steps": [{**step(0, ["text_input"], ["text_output"]), "decoupled": True}],
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


def garbage(path: str, around: bytes) -> dict[str, Callable[[], bytes]]:
    """Return what makes a request of each small kind of garbage for a route."""
    json_, draw = f"Content-Type: {JSON}", random.Random(0)
    form = 'Content-Type: multipart/form-data; boundary="x"'
    parts = [
        b"--x\r\n",
        b'Content-Disposition: form-data; name="TEXT"\r\n',
        b"\r\n",
        b"a",
        b"--x--",
    ]
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
        "deep nesting": lambda: text(b"[" * 10_000 + b"]" * draw.choice([0, 10_000])),
        "1,000 empty lists": lambda: text(b"[%s[]]" % (b"[]," * 1000)),
        "wrong types": lambda: text(draw.choice(values)),
        "huge numbers": lambda: text(draw.choice(numbers)),
        "broken multipart": lambda: post(path, b"".join(draw.choices(parts, k=9)), form),
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
