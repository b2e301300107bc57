"""Two replicas over one, and Ray Serve over the same Triton asked directly, by `wrk`.

python -m benchmarks.rayserve [--seconds 10] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import copier

from benchmarks.gateway.service import gateway
from benchmarks.generation import template
from benchmarks.wrk import Request, Wrk
from triton_ensemble.project import Project
from triton_ensemble.server.local_triton import LocalTriton
from triton_ensemble.server.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
SCALED, COMPARED = 8, 32  # requests at once
# Waits as many milliseconds as it is told; below 0, it computes as long.
CODE = """\
import time

from triton_step import Context


class Step:
    def __init__(self, context: Context) -> None:
        pass

    def __call__(self, INPUT):
        seconds = float(INPUT.max()) / 1000
        if seconds > 0:
            time.sleep(seconds)
        end = time.thread_time() - seconds
        while seconds < 0 and time.thread_time() < end:
            pass
        return {"OUTPUT": INPUT}
"""
KINDS = {  # of processes, by what their command line has
    "ray::ProxyActor": "Serve's proxy",
    "ray::ServeReplica": "gateway in the replica",
    "-m triton_ensemble gateway": "gateway",
    "haproxy ": "HAProxy",
    "tritonserver": "Triton",
    "triton_python_backend_stub": "Triton",
    "ray": "the rest of Ray",
}
Times = dict[str, float]  # by kind
TICKS = os.sysconf("SC_CLK_TCK")


def project(folder: Path, code: str = CODE, **answers: Any) -> Path:
    """Generate a project of one step in a folder."""
    one = {"name": "wait", "backend": "python", "inputs": ["INPUT"], "outputs": ["OUTPUT"]}
    tensors = dict.fromkeys(["INPUT", "OUTPUT"], "FP32[1]")
    data = {"project_name": "waiting", "tensors": tensors, "steps": [one], **answers}
    data["extras"] = ["gateway", "ray"]
    copier.run_copy(str(template(folder)), folder / "p", data=data, defaults=True, quiet=True)
    (folder / "p/steps/wait.py").write_text(code)
    command = [sys.executable, "-m", "triton_ensemble", "repository"]
    subprocess.run(
        command, cwd=folder / "p", check=True, stdout=subprocess.DEVNULL, env=environment()
    )
    return folder / "p"


def environment() -> dict[str, str]:
    path = os.pathsep.join(["src", str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


@contextmanager
def ray(folder: Path, replicas: int, **settings: str) -> Iterator[str]:
    """Serve a project as `make ray` does, with more variables; yield the URL."""
    [port] = free_ports({"ray": 0}).values()
    command = [
        sys.executable,
        "-m",
        "triton_ensemble",
        "ray",
        f"--port={port}",
        f"--replicas={replicas}",
    ]
    with subprocess.Popen(
        command, cwd=folder, env=environment() | settings, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            assert "Ctrl-C" in process.stdout.readline()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGINT)


def seconds_by_kind() -> Times:
    """Return the processor time of all processes of this machine that serve, by kind."""
    found: Times = dict.fromkeys(KINDS.values(), 0.0)
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_text().replace("\0", " ")
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        kind = next((kind for text, kind in KINDS.items() if text in command), None)
        if kind and "benchmarks" not in command:
            found[kind] += (int(fields[11]) + int(fields[12])) / TICKS
    return found


class Load:
    """What is sent to Triton itself, or to the gateway: one row of so many milliseconds."""

    def __init__(self, url: str, milliseconds: float, model: str = "") -> None:
        row = {"name": "INPUT", "shape": [1, 1], "datatype": "FP32", "data": [milliseconds]}
        body = json.dumps({"inputs": [row]} if model else {"INPUT": [[milliseconds]]})
        path = f"/v2/models/{model}/infer" if model else "/predict"
        headers = {"Content-Type": "application/json"}
        self._wrk = Wrk(url, Request(path, body.encode(), headers))

    def measured(self, at_once: int, seconds: int, rounds: int) -> tuple[float, Times]:
        """Return the median of the answers a second, and microseconds of processors for one by kind."""
        self._wrk.throughput(at_once, 2)
        before = seconds_by_kind()
        rates = [self._wrk.throughput(at_once, seconds) for _ in range(rounds)]
        answers = sum(rates) * seconds
        spent = seconds_by_kind()
        return median(rates), {
            kind: (s - before[kind]) / answers * 1e6 for kind, s in spent.items()
        }


def main() -> None:
    """Print both comparisons as tables of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    times = options.seconds, options.rounds
    os.environ["RAY_AUTH_MODE"] = "disabled"
    with tempfile.TemporaryDirectory() as folder:
        scaling(Path(folder), *times)
    with tempfile.TemporaryDirectory() as folder:
        cost(Path(folder), *times)


def scaling(folder: Path, seconds: int, rounds: int) -> None:
    """One row a call, so that a replica answers at the pace of its step."""
    served = project(folder, max_batch_size=1)
    rates: dict[tuple[int, int], float] = {}
    for replicas in (1, 2):
        with ray(served, replicas) as url:
            for milliseconds in (20, -20):
                load = Load(url, milliseconds)
                rates[replicas, milliseconds], _ = load.measured(SCALED, seconds, rounds)
    print("| step | 1 replica | 2 replicas | ratio |\n|---|---|---|---|")
    for milliseconds, name in ((20, "waits 20 ms"), (-20, "computes 20 ms")):
        one, two = rates[1, milliseconds], rates[2, milliseconds]
        print(f"| {name} | {one:.1f} | {two:.1f} | {two / one:.2f} |")


def cost(folder: Path, seconds: int, rounds: int) -> None:
    """The same Triton directly, by the gateway alone, and by Ray Serve; batches as the project makes them."""
    served = project(folder)
    model = Project.load(served).ensemble
    rows: dict[str, dict[int, tuple[float, Times]]] = {}
    with LocalTriton(served / "model_repository", model) as triton:
        rows["Triton"] = measure(triton.http_url, seconds, rounds, model)
        with gateway(served, triton.grpc_url, 1) as service:
            rows["gateway"] = measure(service.url, seconds, rounds)
    with ray(served, 1) as url:
        rows["Ray Serve"] = measure(url, seconds, rounds)
    with ray(served, 1, RAY_SERVE_ENABLE_HA_PROXY="1") as url:
        rows["Ray Serve, HAProxy"] = measure(url, seconds, rounds)
    print("\n| asked | waits 20 ms | / Triton | waits 0 ms | / Triton |\n|---|---|---|---|---|")
    for name, row in rows.items():
        figures = (f"{row[ms][0]:.0f} | {row[ms][0] / rows['Triton'][ms][0]:.2f}" for ms in (20, 0))
        print(f"| {name} | {' | '.join(figures)} |")
    print("\nMicroseconds of processors for an answer, waits 0 ms:\n")
    for name, row in rows.items():
        print(f"- {name}: {', '.join(f'{kind} {us:.0f}' for kind, us in row[0][1].items() if us)}")


def measure(url: str, seconds: int, rounds: int, model: str = "") -> dict[int, tuple[float, Times]]:
    return {ms: Load(url, ms, model).measured(COMPARED, seconds, rounds) for ms in (20, 0)}


if __name__ == "__main__":
    main()
