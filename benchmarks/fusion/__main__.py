"""Fused steps against the same steps served separately, and against FastAPI: one run, alternating, medians.

python -m benchmarks.fusion [chain] [digits] [photo] [texts] [--rounds 8] [--variants NAME ...] [--baseline-python PATH]
"""

from __future__ import annotations

import argparse
import itertools
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.fusion.works import (
    CHAIN,
    CORES,
    WORKS,
    Answers,
    baseline_request,
    project,
    triton_request,
    variants,
)
from benchmarks.generation import template
from benchmarks.processes import cpu_seconds, family, started
from benchmarks.wrk import Wrk
from triton_ensemble.server.local_triton import LocalTriton
from triton_ensemble.server.ports import free_ports

HERE = Path(__file__).parent
PEERS = HERE.parent / "peers"
CONCURRENCIES = [1, 8, 32]
PAUSE_S = 0.3  # what the last load has asked is computed before the next begins
KINDS = ("FastAPI", "separate", "fused", "one model")
Rounds = dict[str, list[float]]  # by variant, a number for each round


class Figures(NamedTuple):
    """Of each round the answers a second, and the processor time of the whole server for an answer (us)."""

    throughput: Rounds
    cpu: Rounds


class Target(NamedTuple):
    """A server's load, and the process that has started its others."""

    load: Wrk
    pid: int

    def cpu_seconds(self) -> float:
        return sum(map(cpu_seconds, family(self.pid)))


@contextmanager
def baseline(python: str, answers: Answers, folder: Path) -> Iterator[Target]:
    """FastAPI with a worker for each core, on the files of a project."""
    port = free_ports({"http": 0})["http"]
    [model] = folder.glob("model_repository/*/1/**/model.onnx")
    command = [python, "-m", "uvicorn", "server:app", "--no-access-log", "--log-level=error"]
    paths = [PEERS / "servers" / "fastapi", PEERS / "pipelines" / "images", folder / "src", folder]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [*paths, HERE.parents[1] / "src"])),
        "MODEL_FILE": str(model),
    }
    command += [f"--port={port}", f"--workers={CORES}"]
    with started(command, folder / "baseline.log", env=env) as process:
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        time.sleep(2)  # the other workers start
        yield Target(Wrk(f"http://127.0.0.1:{port}", baseline_request(answers)), process.pid)


def measured(targets: Mapping[str, Target], concurrency: int, rounds: int, seconds: int) -> Figures:
    """The order turns, so that none is always first."""
    figures = Figures({name: [] for name in targets}, {name: [] for name in targets})
    for target in targets.values():
        target.load.throughput(concurrency, seconds)  # warms up
    for i in range(rounds):
        names = list(targets)
        for name in names[i % len(names) :] + names[: i % len(names)]:
            time.sleep(PAUSE_S)
            before = targets[name].cpu_seconds()
            throughput = targets[name].load.throughput(concurrency, seconds)
            used = targets[name].cpu_seconds() - before
            figures.throughput[name].append(throughput)
            figures.cpu[name].append(1e6 * used / max(1.0, throughput * seconds))
    return figures


def middle(figures: Rounds, name: str) -> float:
    return statistics.median(figures[name])


def ratio(figures: Rounds, one: str, other: str) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(figures[one], figures[other], strict=True))


def best(figures: Rounds, kind: str) -> str:
    return max(
        (name for name in figures if name.startswith(kind)), key=lambda n: middle(figures, n)
    )


def table(work: str, figures: dict[int, Figures]) -> None:
    """Requests a second, and us of all processors for one."""
    heads = [head for c in figures for head in (f"c={c}: requests/s", "us")]
    print(f"\n| {work} | {' | '.join(heads)} |\n|---{'|---' * len(heads)}|")
    for name in next(iter(figures.values())).throughput:
        cells = [f"{middle(rounds, name):.0f}" for each in figures.values() for rounds in each]
        print(f"| {name} | {' | '.join(cells)} |")


def line(what: str, figures: dict[int, Figures], one: str, other: str) -> None:
    """`one` and `other` begin the names of variants; of several the best is meant."""
    cells = []
    for concurrency, (rounds, cpu) in figures.items():
        first, second = best(rounds, one), best(rounds, other)
        by_cpu = middle(cpu, second) / middle(cpu, first)
        value = f"{ratio(rounds, first, second):.2f}, by processor time {by_cpu:.2f}"
        cells.append(f"c={concurrency} {value} ({first} / {second})")
    print(f"{what}: {'; '.join(cells)}", flush=True)


def compared(figures: dict[int, Figures]) -> None:
    """Each kind over those before it, and each setting over the defaults."""
    names = list(next(iter(figures.values())).throughput)
    kinds = [kind for kind in KINDS if any(name.startswith(kind) for name in names)]
    for other, kind in itertools.combinations(kinds, 2):
        line(f"{kind} / {other}", figures, kind, other)
    for name in names:
        default = name.partition(",")[0]
        if name != default and default in names:
            ratios = [
                f"c={c} {ratio(each.throughput, name, default):.2f}" for c, each in figures.items()
            ]
            print(f"{name} / {default}: {'; '.join(ratios)}", flush=True)


def run(
    source: str, all_answers: dict[str, Answers], options: argparse.Namespace
) -> dict[int, Figures]:
    """All variants of one work at once, so that each is measured under the same load."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        targets: dict[str, Target] = {}
        for i, (name, answers) in enumerate(all_answers.items()):
            path = project(source, answers, Path(folder, str(i)))
            triton = stack.enter_context(LocalTriton(path / "model_repository", "served"))
            load = Wrk(triton.http_url, triton_request(answers))
            targets[name] = Target(load, triton.pid)
        if "IMAGE" in answers["tensors"] and options.baseline_python:
            served = baseline(options.baseline_python, answers, Path(folder, "0"))
            targets["FastAPI"] = stack.enter_context(served)
        return {
            concurrency: measured(targets, concurrency, options.rounds, options.seconds)
            for concurrency in options.concurrency
        }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fusion", description=__doc__)
    works = ["chain", *WORKS]
    parser.add_argument("works", nargs="*", default=works, metavar="WORK", help=", ".join(works))
    names = list(variants("digits"))
    parser.add_argument("--variants", nargs="+", default=names, choices=names, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=2, help="of each measurement")
    parser.add_argument("--concurrency", type=int, nargs="+", default=CONCURRENCIES)
    needs = "an interpreter with what README.md lists"
    parser.add_argument("--baseline-python", type=os.path.abspath, help=needs)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = template(Path(folder))
        if "chain" in options.works:
            figures = run(source, CHAIN, options)
            table("chain", figures)
            line("noise", figures, "one step again", "one step")
            line("one step / three fused (at most 1.2)", figures, "one step", "three fused")
            line("three fused / separate", figures, "three fused", "three separate")
        for work in options.works:
            if work != "chain":
                all_answers = variants(work)
                figures = run(
                    source, {name: all_answers[name] for name in options.variants}, options
                )
                table(work, figures)
                compared(figures)


if __name__ == "__main__":
    main()
