"""The results of a run, as tables and a plot: kept in results.json, so that the pages can be written anew without a run."""

from __future__ import annotations

import json
import os
import platform
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
BEGIN, END = "<!-- written by --write: begin -->\n", "<!-- end -->\n"
OURS = "ours"
SERVERS, GENERATION, FIRST_ANSWER = "servers", "generation", "first-answer"
ROWS = {GENERATION: generation.table, FIRST_ANSWER: first_answer.table}
SHOWN = "32"  # the concurrency of the plot
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
    cpus = {
        line.partition(": ")[2]
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    }
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
    yield "\n![Answers a second, and processor time for one](results.svg)"


def printed(parts: Parts) -> str:
    """Return all that is told of a run."""
    heads = {SERVERS: "Servers", GENERATION: "Generation", FIRST_ANSWER: "The first answer"}
    text = []
    for part, found in parts.items():
        rows = servers(found) if part == SERVERS else ROWS[part](found["rows"])
        machine = [] if part == SERVERS else [f"{found['machine']}.\n"]
        text += [f"\n## {heads[part]}\n", *machine, *rows]
    return "\n".join(text)


def written(parts: Parts) -> None:
    """Write the results, their page and their plot beside this file. Figures that were not measured now are kept."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    parts = {**kept, **parts}
    RESULTS.write_text(json.dumps(parts) + "\n")
    page = (HERE / "README.md").read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    if SERVERS in parts:
        plot(Results(**parts[SERVERS]), HERE / "results.svg")
    (HERE / "README.md").write_text(f"{before}{BEGIN}{printed(parts)}\n\n{END}{after}")


def plot(results: Results, path: Path) -> None:
    """Draw of each work the answers a second at one concurrency, and the processor time of one."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "peers", "svg.fonttype": "none", "font.size": 8})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        len(results.turns), 2, figsize=(10, 2.6 * len(results.turns)), squeeze=False, sharey="row"
    )
    for (work, peers), (left, right) in zip(results.turns.items(), axes, strict=True):
        bars(left, peers, "throughput")
        bars(right, peers, "cpu_us")
        left.set_title(f"{work}: answers a second, {SHOWN} at once (more is better)")
        right.set_title(f"{work}: us of all processors for an answer (less is better)")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def bars(axis: Any, peers: dict[str, list[Turn]], figure: str) -> None:
    """Draw a bar for the median of each peer, and a line from the least to the greatest."""
    for place, (title, turns) in enumerate(reversed(peers.items())):
        level = SHOWN if SHOWN in turns[0]["levels"] else next(iter(turns[0]["levels"]))
        values = [turn["levels"][level][figure] for turn in turns]
        middle = statistics.median(values)
        color = "tab:green" if title.startswith(OURS) else "tab:gray"
        error = [[middle - min(values)], [max(values) - middle]]
        axis.barh(place, middle, color=color, xerr=error)
    axis.set_yticks(range(len(peers)), list(reversed(peers)))
