"""What a user would pick instead, side by side: the same steps and model files behind each, in alternating rounds.

python -m benchmarks.peers [PART ...] [--rounds 3] [--peers LitServe ...] [--short] [--write]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.generation import template
from benchmarks.peers import first_answer, generation
from benchmarks.peers.environments import PeerError, environment, versions
from benchmarks.peers.others import OTHERS, Loop, Other
from benchmarks.peers.ours import OURS, ByClient, Ours
from benchmarks.peers.report import (
    FIRST_ANSWER,
    GENERATION,
    SERVERS,
    Parts,
    Results,
    machine,
    printed,
    written,
)
from benchmarks.peers.serving import Served
from benchmarks.peers.works import Answer, Projects, differs, works
from benchmarks.processes import cpu_seconds, family, memory_mib
from triton_ensemble.serve.local.process import ServerError

Peer = Ours | ByClient | Other | Loop
PEERS: dict[str, Peer] = {peer.title: peer for peer in [*OURS, *OTHERS]}
LEVELS = [1, 8, 32, 128]
WARM_S = 3  # who answers first may have workers that still start
SHORT = ["ours: fused", "FastAPI + ONNX Runtime", "steps in a loop, one process"]
FAILURES = (OSError, PeerError, RuntimeError, ServerError, ValueError)


def used(served: Served) -> float:
    """Return the processor time of all that serves."""
    return sum(cpu_seconds(process) for pid in served.pids for process in family(pid))


def measured(served: Served, level: int, seconds: int) -> dict[str, float]:
    """Return the rate at a concurrency, and what an answer takes of all processors (us)."""
    seconds *= 2 if level > 32 else 1  # the first answers come late where many wait
    before = used(served)
    rate = served.load.rate(level, seconds)
    cpu_us = 1e6 * (used(served) - before) / (rate.throughput * seconds)
    return {name: round(x, 2) for name, x in {**rate._asdict(), "cpu_us": cpu_us}.items()}


def turn(
    peer: Peer, projects: Projects, expected: list[Answer], options: argparse.Namespace
) -> dict[str, Any]:
    """Start a peer, compare its answers, load it, and end it. Return the figures."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, peer.serving(projects, Path(folder)) as served:
        served.ask(0)
        ready = time.perf_counter() - start
        for row, answer in enumerate(expected):
            if problem := differs(served.ask(row), answer):
                raise PeerError(f"answers row {row} otherwise: {problem}")
        served.load.rate(max(options.concurrency), WARM_S)
        levels = {str(c): measured(served, c, options.seconds) for c in options.concurrency}
        memory = sum(memory_mib(process) for pid in served.pids for process in family(pid))
    return {"ready_s": round(ready, 2), "memory_mib": round(memory), "levels": levels}


def expectations(projects: Projects) -> list[Answer]:
    """Return what the steps answer without a server."""
    with tempfile.TemporaryDirectory() as folder, Loop().serving(projects, Path(folder)) as served:
        return [served.ask(row) for row in range(len(projects.work.rows))]


def run(options: argparse.Namespace, folder: Path) -> Parts:
    """Measure all parts that are asked for."""
    source, given = template(folder / "template"), works()
    parts: Parts = {}
    asked = {p: Projects(source, given[p], folder / p) for p in options.parts if p in given}
    if asked:
        results = Results(machine(), {}, {}, {}, {})
        prepared(options.peers, asked, results)
        try:
            rounds(options, asked, results)
        except KeyboardInterrupt:
            print("ended early: what was measured until now follows", file=sys.stderr)
        parts[SERVERS] = results._asdict()
    if GENERATION in options.parts:
        found = generation.rows(source, options.sizes, options.rounds)
        parts[GENERATION] = {"machine": machine(), "rows": list(found)}
    if FIRST_ANSWER in options.parts:
        parts[FIRST_ANSWER] = {"machine": machine(), "rows": list(first_answer.rows())}
    return parts


def rounds(
    options: argparse.Namespace, all_projects: dict[str, Projects], results: Results
) -> None:
    """Give each peer its turns, the order turning. A peer that fails once is not asked again in that work."""
    expected = {name: expectations(projects) for name, projects in all_projects.items()}
    for i in range(options.rounds):
        start = i * len(options.peers) // options.rounds
        order = options.peers[start:] + options.peers[:start]
        for work, title in itertools.product(all_projects, order):
            failures = results.failures.setdefault(work, {})
            if title in failures:
                continue
            print(f"round {i + 1} of {options.rounds}: {work}, {title}", file=sys.stderr)
            try:
                figures = turn(PEERS[title], all_projects[work], expected[work], options)
            except FAILURES as error:
                failures[title] = str(error).splitlines()[0]
            else:
                results.turns.setdefault(work, {}).setdefault(title, []).append(figures)


def prepared(titles: list[str], all_projects: dict[str, Projects], results: Results) -> None:
    """Install each peer, and generate all projects, before any time is taken."""
    for title in titles:
        peer = PEERS[title]
        if isinstance(peer, Other | Loop):
            try:
                found = environment(peer.folder)
                results.versions[title] = versions(found, list(peer.packages))
            except PeerError as error:
                for work in all_projects:
                    results.failures.setdefault(work, {})[title] = str(error)
    for name, projects in all_projects.items():
        results.lines[name] = {title: PEERS[title].lines(projects.work) for title in titles}
        for peer in map(PEERS.__getitem__, titles):
            projects.project(peer.variant if isinstance(peer, Ours) else "apart")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parts = [*works(), GENERATION, FIRST_ANSWER]
    parser.add_argument("parts", nargs="*", default=parts, metavar="PART", help=", ".join(parts))
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=PEERS, metavar="PEER")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement")
    parser.add_argument("--concurrency", type=int, nargs="+", default=LEVELS)
    steps = "of the pipelines that are generated, in steps"
    parser.add_argument("--sizes", type=int, nargs="+", default=generation.SIZES, help=steps)
    parser.add_argument("--short", action="store_true", help="few peers, one work, one level")
    parser.add_argument("--write", action="store_true", help="results.json, results.md, README.md")
    options = parser.parse_args()
    if options.short:
        options.parts, options.peers, options.sizes = ["digits", GENERATION], SHORT, [3]
        options.rounds, options.seconds, options.concurrency = 1, 1, [8]
    with tempfile.TemporaryDirectory() as folder:
        found = run(options, Path(folder))
    print(printed(found))
    if options.write:
        written(found)


if __name__ == "__main__":
    main()
