"""Load by NVIDIA's perf_analyzer, where it is installed."""

from __future__ import annotations

import base64
import csv
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from triton_ensemble.bench.closed_loop import Address, cpu_seconds
from triton_ensemble.bench.figures import Load
from triton_ensemble.bench.requests import Inputs, raw, without_rows
from triton_ensemble.project import ENSEMBLE

WINDOWS = 3  # it wants as many, that agree with each other


class PerfAnalyzerError(RuntimeError):
    """perf_analyzer has failed: its own words."""


def installed() -> str | None:
    """Its path."""
    return shutil.which("perf_analyzer")


def input_data(rows: Sequence[Inputs]) -> str:
    """One-row requests as perf_analyzer reads them: no batch dimension, texts as they are on the wire."""
    return json.dumps({"data": [{n: _tensor(n, row) for n in row} for row in rows]})


def _tensor(name: str, row: Inputs) -> dict[str, object]:
    shape = list(without_rows(row[name]))
    content = base64.b64encode(raw(name, row[name])).decode()
    return {"content": {"b64": content}, "shape": shape}


def measure(
    address: Address, requests: Sequence[Inputs], rows: int, concurrency: int, seconds: float
) -> Load:
    """The load of `concurrency` callers for `seconds`; PerfAnalyzerError if a request fails."""
    with tempfile.TemporaryDirectory() as folder:
        data, report = Path(folder, "input.json"), Path(folder, "report.csv")
        data.write_text(input_data(requests))
        options = {
            "-m": ENSEMBLE,
            "-i": "grpc",
            "-u": address.target,
            "-b": rows,
            "--input-data": data,
            "--concurrency-range": f"{concurrency}:{concurrency}",
            "--measurement-interval": int(seconds * 1000 / WINDOWS),
            "--stability-percentage": 999,
            "--percentile": 50,
            "-f": report,
            **({"--ssl-grpc-use-ssl": "true"} if address.secure else {}),
        }
        words = [str(word) for option in options.items() for word in option]
        start, cpu = time.perf_counter(), cpu_seconds()
        run = subprocess.run([str(installed()), *words], capture_output=True, text=True)
        cores = (cpu_seconds() - cpu) / (time.perf_counter() - start)
        if run.returncode or not report.exists():
            raise PerfAnalyzerError(_reason(run.stdout + run.stderr))
        return _load(report, concurrency, rows, cores)


def _load(report: Path, concurrency: int, rows: int, cores: float) -> Load:
    with report.open() as file:
        row = next(csv.DictReader(file))
    p50, p95, p99 = (float(row[f"p{p} latency"]) for p in (50, 95, 99))
    throughput = float(row["Inferences/Second"]) / rows
    return Load(concurrency, throughput, p50, p95, p99, own_cores=cores, in_python=False)


def _reason(printed: str) -> str:
    lines = [line.strip() for line in printed.splitlines() if "error" in line.lower()]
    return f"perf_analyzer: {lines[-1] if lines else printed.strip()[-200:]}"
