"""The results of a run, as tables: kept in results.json, so that the pages can be written anew without a run."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Iterator
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers import first_answer, generation
from benchmarks.peers.environments import ROOT

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
WRITTEN = "<!-- Written by benchmarks/peers/report.py. -->\n\n# Results of the comparison\n"
SERVERS, GENERATION, FIRST_ANSWER = "servers", "generation", "first-answer"
ROWS = {GENERATION: generation.table, FIRST_ANSWER: first_answer.table}
# The columns and rows of the table in README.md.
FRONT = ["ours: fused", "ours: fused, gateway", "FastAPI + ONNX Runtime", "LitServe", "BentoML"]
FRONT_ROWS = {
    "32": "responses/s, 32 at once, 2 cores, no GPU: [digits, photos, texts](benchmarks/peers/results.md)",
    "1": "the same, one request at a time",
}
Turn = dict[str, Any]
Parts = dict[str, dict[str, Any]]  # what was measured: figures, and on which machine


class Results(NamedTuple):
    """By work and peer: lines to write, why it was not measured, and a dict for each turn."""

    machine: str
    versions: dict[str, str]
    lines: dict[str, dict[str, int]]
    failures: dict[str, dict[str, str]]
    turns: dict[str, dict[str, list[Turn]]]


def machine() -> str:
    """Return what the figures depend on besides the peers."""
    cpus = set(re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()))
    commit = subprocess.check_output(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True
    ).strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[2]
    return (
        f"{date.today()}, {commit}; {cores} cores ({', '.join(sorted(cpus))}), {memory:.0f} GiB, "
        f"load average {load:.1f} before; Python {platform.python_version()}, "
        f"nvidia-pytriton {version('nvidia-pytriton')} (Triton 2.51.0), onnxruntime {version('onnxruntime')}"
    )


def levels(results: Results) -> list[str]:
    """Return the concurrencies that were measured."""
    found = [
        turn["levels"] for peers in results.turns.values() for t in peers.values() for turn in t
    ]
    return list(found[0]) if found else []


def spread(values: list[float], form: str = "{:.0f}") -> str:
    """Return the median, and the least and the greatest."""
    low, middle, high = (form.format(f(values)) for f in (min, statistics.median, max))
    return f"{middle} ({low}-{high})" if len(values) > 1 else middle


def row(turns: list[Turn], measured: list[str], lines: int) -> list[str]:
    """Return a peer's cells: of each concurrency the rate and the processor time, then what does not depend on it."""
    cells = []
    for level in measured:
        each = [turn["levels"][level] for turn in turns]
        cells.append(spread([one["throughput"] for one in each]))
        cells.append(f"{statistics.median(one['cpu_us'] for one in each):.0f}")
    last = measured[-1]
    cells.append(spread([turn["levels"][last]["p99_ms"] for turn in turns]))
    cells.append(spread([turn["ready_s"] for turn in turns], "{:.1f}"))
    memory = statistics.median(turn["memory_mib"] for turn in turns)
    return [*cells, f"{memory:.0f}", str(lines) if lines else ""]


def tables(results: Results) -> Iterator[str]:
    """Yield a table for each work, in lines of Markdown."""
    measured = levels(results)
    heads = [head for level in measured for head in (f"c={level}: answers/s", "us")]
    for work, titles in results.lines.items():
        p99 = [f"p99 at c={measured[-1]}, ms"] if measured else []
        columns = [work, *heads, *p99, "ready, s", "MiB", "lines"]
        yield f"\n| {' | '.join(columns)} |\n|---{'|---' * (len(columns) - 1)}|"
        for title, lines in titles.items():
            failure = results.failures.get(work, {}).get(title)
            turns = results.turns.get(work, {}).get(title, [])
            if failure or not turns:
                yield f"| {title} | not measured: {failure or 'the run has ended before'} |"
            else:
                yield f"| {title} | {' | '.join(row(turns, measured, lines))} |"


def servers(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines on all works."""
    results = Results(**found)
    yield f"{results.machine}; {'; '.join(filter(None, results.versions.values()))}."
    yield from tables(results)


def printed(parts: Parts) -> str:
    """Return all that is told of a run."""
    heads = {SERVERS: "Servers", GENERATION: "Generation", FIRST_ANSWER: "The first answer"}
    text = []
    for part, found in parts.items():
        rows = servers(found) if part == SERVERS else ROWS[part](found["rows"])
        machine = [] if part == SERVERS else [f"{found['machine']}.\n"]
        text += [f"\n## {heads[part]}\n", *machine, *rows]
    return "\n".join(text)


def rates(results: Results, level: str) -> list[list[str]]:
    """Return the responses per second of each peer of README.md by work, the most in bold."""
    found: list[list[str]] = [[] for _ in FRONT]
    for peers in results.turns.values():
        measured = [_rate(peers.get(title, []), level) for title in FRONT]
        for cells, rate in zip(found, measured, strict=True):
            bold = "**" * (rate == max(measured))
            cells.append(f"{bold}{rate}{bold}" if rate else "not run")
    return found


def _rate(turns: list[Turn], level: str) -> int:
    """Return the median of the responses per second, or 0 if the peer was not measured."""
    values = [turn["levels"][level]["throughput"] for turn in turns if level in turn["levels"]]
    return round(statistics.median(values)) if values else 0


def front_page(results: Results) -> str:
    """Return README.md with the figures of its rows."""
    text = (ROOT / "README.md").read_text("utf-8")
    for level, head in FRONT_ROWS.items():
        asked, by_rest, *others = map(", ".join, rates(results, level))
        row = f"| {head} | {asked}; by REST {by_rest} | {' | '.join(others)} |"
        [old] = re.findall(rf"^\| {re.escape(head)} \|.*$", text, re.MULTILINE)
        text = text.replace(old, row)
    return text


def pages(parts: Parts) -> dict[Path, str]:
    """Return the pages with the figures of a run."""
    return {
        HERE / "results.md": f"{WRITTEN}{printed(parts)}\n",
        ROOT / "README.md": front_page(Results(**parts[SERVERS])),
    }


def written(parts: Parts) -> None:
    """Write the results and the pages that have them. Figures that were not measured now are kept."""
    parts = {**json.loads(RESULTS.read_text()), **parts}
    RESULTS.write_text(json.dumps(parts) + "\n")
    for page, text in pages(parts).items():
        page.write_text(text, "utf-8")


if __name__ == "__main__":
    written({})
