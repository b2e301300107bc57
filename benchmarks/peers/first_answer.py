"""From an empty folder to a first answer, as a newcomer goes: commands, keystrokes, lines to write, and seconds.

Each tool by its own quick start, with a package cache that is empty and then with the one that this has filled. Ours
begins with a clone of this repository, since nothing is published yet.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.peers.environments import LIBRARIES, ROOT
from benchmarks.processes import started
from triton_ensemble.serve.local.ports import free_ports

LIMIT_S = 300.0
VENV = ["python3 -m venv .venv", ". .venv/bin/activate"]
LITSERVE = """\
import litserve as ls

class SimpleLitAPI(ls.LitAPI):
    def setup(self, device):
        self.model = lambda x: x**2

    def decode_request(self, request):
        return request["input"]

    def predict(self, x):
        return self.model(x)

    def encode_response(self, output):
        return {"output": output}

if __name__ == "__main__":
    server = ls.LitServer(SimpleLitAPI())
    server.run(port=PORT)
"""
BENTOML = """\
import bentoml

@bentoml.service
class Square:
    @bentoml.api
    def square(self, x: float) -> float:
        return x**2
"""
PYTRITON = """\
import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

@batch
def infer(x):
    return {"y": x**2}

with Triton(config=TritonConfig(http_port=PORT)) as triton:
    triton.bind(
        model_name="square",
        infer_func=infer,
        inputs=[Tensor(name="x", dtype=np.float32, shape=(1,))],
        outputs=[Tensor(name="y", dtype=np.float32, shape=(1,))],
        config=ModelConfig(max_batch_size=8),
    )
    triton.serve()
"""
V2 = '{"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [4.0]}]}'
POST = "curl -f -H 'Content-Type: application/json' http://127.0.0.1:PORT/"


class Tool(NamedTuple):
    """Commands one after the other, PORT filled in, then `serve` beside `ask`, if there are any."""

    name: str
    commands: list[str]
    answer: str  # what answers, in words
    files: Mapping[str, str] = {}
    serve: str = ""
    ask: str = ""


TOOLS = [
    Tool(
        "ours",
        [
            *VENV,
            "pip install copier",
            "copier copy --defaults --vcs-ref HEAD CLONE demo",
            "cd demo",
            "make infer",
        ],
        "a trained network between two steps, tests included",
    ),
    Tool(
        "LitServe",
        [*VENV, "pip install litserve"],
        "x squared",
        {"server.py": LITSERVE},
        "python server.py",
        f"{POST}predict -d '{{\"input\": 4.0}}'",
    ),
    Tool(
        "BentoML",
        [*VENV, "pip install bentoml"],
        "x squared",
        {"service.py": BENTOML},
        "bentoml serve service:Square --port PORT",
        f"{POST}square -d '{{\"x\": 4.0}}'",
    ),
    Tool(
        "PyTriton",
        [*VENV, "pip install nvidia-pytriton"],
        "x squared",
        {"server.py": PYTRITON},
        "python server.py",
        f"{POST}v2/models/square/infer -d '{V2}'",
    ),
    Tool(
        "truss init",
        [*VENV, "pip install truss", "truss init --name demo demo"],
        "none: `truss push` wants an account, and a run of its own Docker",
    ),
]


def seconds(tool: Tool, cache: Path) -> float:
    """Return the time that all its commands take; RuntimeError with the last line of one that fails."""
    port = str(free_ports({"http": 0})["http"])
    with TemporaryDirectory() as name:
        folder, script = Path(name, "empty"), Path(name, "commands")
        folder.mkdir()
        clone = Path(name, "clone")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        for file, text in tool.files.items():
            (folder / file).write_text(text.replace("PORT", port))
        lines = [line.replace("PORT", port).replace("CLONE", str(clone)) for line in tool.commands]
        if tool.serve:
            ask, serve = (text.replace("PORT", port) for text in (tool.ask, tool.serve))
            lines += [
                f"{serve} &",
                "server=$!",
                "trap 'kill $server' EXIT",
                f"until {ask}; do kill -0 $server; sleep 0.1; done",
            ]
        script.write_text("\n".join(["set -e", *lines]))
        return _run(script, folder, Path(name, "log"), cache)


def _run(script: Path, folder: Path, log: Path, cache: Path) -> float:
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env = inherited | LIBRARIES | {"PIP_CACHE_DIR": str(cache), "BENTOML_DO_NOT_TRACK": "true"}
    start = time.perf_counter()
    with started(["bash", str(script)], log, cwd=folder, env=env) as process:
        code = process.wait(LIMIT_S)
        took = time.perf_counter() - start
    if code:
        raise RuntimeError(f"{script}: {log.read_text().strip().splitlines()[-1][:200]}")
    return took


def rows() -> Iterator[dict[str, Any]]:
    """Yield for each tool what there is to type, and the seconds with an empty and with a warm cache."""
    for tool in TOOLS:
        typed = [*tool.commands, *filter(None, [tool.serve, tool.ask])]
        texts = [*typed, *(line for text in tool.files.values() for line in text.splitlines())]
        row: dict[str, Any] = {
            "name": tool.name,
            "commands": len(typed),
            "keystrokes": sum(len(text) + 1 for text in texts),
            "lines": sum(bool(line) for line in texts) - len(typed),
            "answer": tool.answer,
        }
        with TemporaryDirectory() as cache:
            try:
                row["empty"], row["warm"] = (round(seconds(tool, Path(cache)), 1) for _ in range(2))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                row["answer"] = f"not run: {error}"
        yield row


def table(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| tool | commands | keystrokes | lines | empty cache, s | warm cache, s | what answers |"
    yield "|---|---|---|---|---|---|---|"
    names = ("name", "commands", "keystrokes", "lines", "empty", "warm", "answer")
    for row in found:
        yield f"| {' | '.join(str(row.get(name, '')) for name in names)} |"
