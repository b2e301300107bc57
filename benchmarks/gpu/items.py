"""Print a line of JSON for each row of an item: `python -m benchmarks.gpu.items NAME`, by the archive's Python."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import cpu_seconds, family, started
from benchmarks.wrk import Request, Wrk, ask, http_request, off
from triton_ensemble.serve.local.local_triton import LocalTriton, get
from triton_ensemble.serve.local.ports import free_ports

PROJECTS, PEERS = Path("projects").absolute(), Path("benchmarks", "peers").absolute()
CALLERS = os.environ.get("CALLERS", "1 8 32 128")
WATCH = "sleep 0.5; nvidia-smi dmon -s utm -c 1 2>/dev/null"  # of the first GPU, for a second
WATCHED = {"sm": "% busy", "fb": "MiB", "rxpci": "MB/s in", "txpci": "MB/s out"}
TENSORS = {"ten": ("T0", "T10"), "texts": ("TEXT", "EMBEDDING"), "image": ("PROMPT", "IMAGE")}
NUMBERS = np.arange(150_528, dtype=np.float32)[None]  # as many as an image of 224 x 224 has
COMMANDS = {"bench": ["--seconds=2", "--concurrency", "1", "8", "32"], "tune": ["--time=90"]}
LIMITER = ["--rate-limit=execution_count", "--rate-limit-resource=r:1"]
SAID = r"(?:CUDA|Pinned) memory pool (?:is|dis)[\w ]+|DCGM unable[\w :]+|[CG]PU device \d|nv_gpu_\w+(?={)"
Row = dict[str, Any]


def attempt(what: str, rows: Iterator[Row]) -> Iterator[Row]:
    """Yield rows, or a row that says why they fail."""
    try:
        yield from ({"what": what, **row} for row in rows)
    except (OSError, RuntimeError) as error:
        yield {"what": what, "note": f"failed: {'; '.join(str(error).splitlines())[:400]}"}


def rates(url: str, request: Request, pid: int) -> Iterator[Row]:
    """Yield for each number of callers the answers per second, and what one takes."""
    load, seconds = Wrk(url, request), 3
    load.rate(8, 2)  # warms up batches of 8, the largest
    for callers in map(int, CALLERS.split()):
        with subprocess.Popen(WATCH, shell=True, text=True, stdout=-1) as watch:
            before = sum(map(cpu_seconds, family(pid)))
            answers = load.rate(callers, seconds).throughput
            used = (sum(map(cpu_seconds, family(pid))) - before) * 1000 / seconds
            lines = watch.communicate()[0].splitlines() or [""]
        seen = dict(zip(lines[0].split()[1:], lines[-1].split(), strict=False))
        gpu = ", ".join(f"{seen[key]} {unit}" for key, unit in WATCHED.items() if key in seen)
        figures = {"per s": round(answers, 1), "CPU ms": round(used / answers, 2), "GPU": gpu}
        yield {"at once": callers, **figures}


def describe(triton: LocalTriton) -> str:
    """Return what Triton says of GPUs, and how often a step got the memory that another one wrote."""
    log = triton.log.read_text()
    places = re.findall(r"(T\d) on (\S+): (\d+), (T\d+): (\d+)", log)
    wrote = {name: pointer for *_, name, pointer in places}
    same = f"{sum(wrote.get(name) == pointer for name, _, pointer, *_ in places)} of 9 handed over"
    notes = [f"{same} in place on {places[0][1]}"] if len(places) == 10 else []
    notes += sorted({note.partition(": ")[2] for note in triton.notes if "GPU" in note})
    return "; ".join([*notes, *sorted({*re.findall(SAID, log + get(triton.metrics_url))})])


def serve(project: Path, expected: list[Any]) -> Iterator[Row]:
    """Measure a project, and how far its answer is from the first one that is expected."""
    kind = project.name.partition("-")[0]
    name, output = TENSORS.get(kind, ("IMAGE", "SCORE"))
    rows = NUMBERS if kind == "ten" else np.array([[Path("data", kind).read_bytes()]], object)
    request = http_request("served", name, rows, [output])
    flags, repository = LIMITER if "claims" in project.name else [], project / "model_repository"
    with LocalTriton(repository, "served", server_args=flags, gentle=False) as triton:
        expected.append(ask(triton.http_url, request, output))
        yield {"off": f"{off(expected[-1], expected[0]):.1g}", "note": describe(triton)}
        yield from rates(triton.http_url, request, triton.pid)


def fastapi(kind: str, library: str, workers: int) -> Iterator[Row]:
    """Serve the same steps and network in as many processes as Triton has instances."""
    port, end, log = free_ports({"http": 0})["http"], time.monotonic() + 60, Path("fastapi.log")
    project, data = PROJECTS / f"{kind}-cpu", Path("data", kind).read_bytes()
    paths = [project, project / "src", PEERS / "servers" / "fastapi", Path("nodelay").absolute()]
    paths += [PEERS / "pipelines" / ("texts" if kind == "texts" else "images")]
    paths += [Path("torch_as_ort").absolute()] if library == "torch" else []
    program = f"uvicorn server:app --no-access-log --port={port} --workers={workers}"
    env = os.environ | {"PYTHONPATH": ":".join(map(str, paths))}
    with started([sys.executable, "-m", *program.split()], log, env=env, cwd=project) as server:
        while log.read_text().count("startup complete") < workers:
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(log.read_text()[-200:].strip())
            time.sleep(0.1)
        yield from rates(f"http://127.0.0.1:{port}", Request("/infer", data, {}), server.pid)


def work(kind: str) -> Iterator[Row]:
    """Serve the projects of a kind, and the same by FastAPI: by ONNX Runtime, and by torch on a GPU."""
    has_torch = bool(find_spec("torch"))
    expected = [NUMBERS[0] + 10] if kind == "ten" else []
    for project in sorted(PROJECTS.glob(f"{kind}-*"), reverse=kind == "ten"):
        if has_torch or "-cpu" in project.name or "-numpy" in project.name:
            yield from attempt(project.name, serve(project, expected))
        else:
            yield {"what": project.name, "note": "left out: torch is not installed"}
    workers = min(8, 2 * len(os.sched_getaffinity(0)))
    for name in ["ONNX Runtime", "torch"][: 1 + has_torch] if kind not in ("ten", "image") else ():
        what = f"{kind}, FastAPI, {workers} processes, {name}"
        yield from attempt(what, fastapi(kind, name, workers))


def toolkit(command: str) -> Iterator[Row]:
    """Run a command of the toolkit in the project of texts. Yield its last lines."""
    project = PROJECTS / ("texts-model" if find_spec("torch") else "texts-cpu")
    whole = [sys.executable, "-m", "triton_ensemble", command, *COMMANDS[command]]
    done = subprocess.run(whole, cwd=project, text=True, stdout=-1, stderr=subprocess.STDOUT)
    for line in list(filter(str.strip, done.stdout.splitlines()))[-12:]:
        yield {"what": project.name, "note": "failed: " * bool(done.returncode) + line}


if __name__ == "__main__":
    name = sys.argv[1]
    kind = "texts" if name in COMMANDS else name
    os.environ["MODEL_FILE"] = str(next(PROJECTS.glob(f"{kind}-cpu/**/model.onnx"), ""))
    for row in toolkit(name) if name in COMMANDS else work(name):
        print(json.dumps(row), flush=True)
