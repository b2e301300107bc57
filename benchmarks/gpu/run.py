"""Measure what the archive has: `python3 -m benchmarks.gpu.run ARCHIVE RESULTS.json [SECONDS]`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from benchmarks.processes import started
from scripts.gpu_page import CARD, NO_GPU, Results, table

# Seconds, the most valuable first; all that an item has started ends within 10 more.
LIMITS = {"ten": 150, "texts": 150, "photo": 150, "bench": 60}
LIMITS |= {"digits": 150, "tune": 150, "image": 40}
Items = Mapping[str, tuple[float, Sequence[str]]]  # limits, and programs that print rows


def measure(items: Items, file: Path, machine: Any, seconds: float, **options: Any) -> Results:
    """Run each item that the file does not have of this card. Write the file after each."""
    end = time.monotonic() + seconds
    results: Results = json.loads(file.read_text()) if file.exists() else {"items": {}}
    if results.get("machine", machine)[CARD] != machine[CARD]:
        results["items"] = {}
    results["machine"] = machine
    for name, (most, command) in items.items():
        found = results["items"].get(name, {"state": "not reached", "rows": []})
        limit = min(most, end - time.monotonic())
        if found["state"] != "measured" and limit > min(10, most / 2):
            found = run_item(command, limit, **options)
        results["items"][name] = found
        file.with_suffix(".new").write_text(json.dumps(results, indent=1) + "\n")
        file.with_suffix(".new").replace(file)  # whole or not at all
        file.with_suffix(".md").write_text(table(results))
    return results


def run_item(command: Sequence[str], limit_s: float, **options: Any) -> dict[str, Any]:
    """Run an item, and end whatever it has started. The rows that it has printed are kept."""
    begin, state = time.monotonic(), "measured"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with started(command, log, **options) as process:
            try:
                state = "failed" if process.wait(limit_s) else state
            except subprocess.TimeoutExpired:
                state = f"ended at its limit of {limit_s:.0f} s"
        lines = log.read_text(errors="replace").splitlines() or ["it said nothing"]
    rows = [json.loads(line) for line in lines if line.startswith('{"')]
    if state == "failed":
        rows.append({"note": f"failed: {lines[-1]}"})
    elif state == "measured" and any("failed: " in row.get("note", "") for row in rows):
        state = "failed"
    return {"state": state, "seconds": round(time.monotonic() - begin), "rows": rows}


def describe_machine(commit: str) -> dict[str, str]:
    """Return what the figures depend on."""
    query = "nvidia-smi --format=csv,noheader --query-gpu=name,driver_version,memory.total,mig.mode.current"
    failed, cards = subprocess.getstatusoutput(query)
    cpu = subprocess.getoutput("grep -m1 'model name' /proc/cpuinfo").partition(": ")[2]
    packages = {f"{each.metadata['Name']} {each.version}" for each in distributions()}
    packages = {each for each in packages if each.startswith(("torch ", "onnx ", "onnxruntime"))}
    return {
        CARD: NO_GPU if failed else "; ".join(cards.splitlines()),
        "machine": f"{len(os.sched_getaffinity(0))} cores ({cpu})",
        "packages": ", ".join(sorted(packages)),
        "commit, date": f"{commit}, {time.strftime('%Y-%m-%d')}",
        "command": " ".join(["python3 -m benchmarks.gpu.run", *sys.argv[1:]]),
    }


def unpack(archive: Path, folder: Path) -> dict[str, str]:
    """Unpack the archive. Return the environment in which its Python also finds this one's packages."""
    with tarfile.open(archive) as file:
        file.extractall(folder)
    paths = [*(path for path in sys.path if path.endswith("-packages")), str(folder)]
    (folder / "python/lib/python3.12/site-packages/this_machine.pth").write_text("\n".join(paths))
    variables = {k: text for k, text in os.environ.items() if not k.startswith("PYTHON")}
    for name, part in (("PATH", "bin"), ("LD_LIBRARY_PATH", "lib")):
        variables[name] = f"{folder}/python/{part}:{variables.get(name, '')}".rstrip(":")
    return variables


def main(archive: str, results: str, seconds: str = "510") -> None:
    end, file = time.monotonic() + float(seconds), Path(results)
    with tempfile.TemporaryDirectory() as folder:
        variables = unpack(Path(archive), Path(folder))
        command = [f"{folder}/python/bin/python3.12", "-m", "benchmarks.gpu.items"]
        items = {name: (limit, [*command, name]) for name, limit in LIMITS.items()}
        machine = describe_machine(Path(folder, "commit").read_text().strip())
        measure(items, file, machine, end - time.monotonic(), cwd=folder, env=variables)
    print(file.with_suffix(".md").read_text())


if __name__ == "__main__":
    main(*sys.argv[1:])
