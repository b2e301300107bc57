"""Compare the generated client's processor time of a call with tritonclient's: `python -m benchmarks.client_cost [ROUNDS]`.

One caller sends one row to a local Triton. Each round measures both clients, in another order.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from inspect import isawaitable, iscoroutinefunction
from pathlib import Path
from typing import Any

import copier
from tritonclient import grpc, http  # type: ignore[import-untyped]
from tritonclient.grpc import aio  # type: ignore[import-untyped]

from benchmarks.fusion.works import trivial
from benchmarks.generation import template
from triton_ensemble.bench.requests import Inputs, sample_rows
from triton_ensemble.client import package
from triton_ensemble.project import Project
from triton_ensemble.server.local_triton import LocalTriton

PIPELINES: dict[str, dict[str, Any]] = {"digits": {}, "FP32[4]": trivial(1)}
CALLS = 200
Call = Callable[[], Any]


def use_generated(client: Any, project: Project, inputs: Inputs) -> Call:
    """Return a call of the client's typed method."""
    method, values = getattr(client, project.package), [inputs[i.name] for i in project.inputs]
    return lambda: method(*values)


def use_tritonclient(client: Any, api: Any, project: Project, inputs: Inputs) -> Call:
    """Return a call that makes the request and reads the arrays of the result."""

    def encode() -> Iterator[Any]:
        for given in project.inputs:
            array = inputs[given.name]
            tensor = api.InferInput(given.name, list(array.shape), given.datatype)
            yield tensor.set_data_from_numpy(array)

    def decode(result: Any) -> list[Any]:
        return [result.as_numpy(name) for name in project.outputs]

    def call() -> list[Any]:
        return decode(client.infer(project.ensemble, list(encode())))

    async def call_async() -> list[Any]:
        return decode(await client.infer(project.ensemble, list(encode())))

    return call_async if iscoroutinefunction(client.infer) else call


async def repeat(call: Call) -> float:
    """Return the processor time of a call, in microseconds."""
    start = time.process_time()
    for _ in range(CALLS):
        result = call()
        if isawaitable(result):
            await result
    return (time.process_time() - start) / CALLS * 1e6


async def compare(calls: list[Call], rounds: int) -> str:
    """Return the cells of a row: both times, the median of the rounds' ratios, and the ratio of the best times."""
    times: list[list[float]] = [[], []]
    for i in range(rounds + 1):
        for at in (0, 1)[:: (-1) ** i]:
            times[at].append(await repeat(calls[at]))
    ours, theirs = (each[1:] for each in times)  # the first round warms up
    ratio = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    medians = [f"{statistics.median(each):.0f}" for each in (ours, theirs)]
    return " | ".join([*medians, f"{ratio:.2f}", f"{min(ours) / min(theirs):.2f}"])


async def measure(name: str, project: Project, triton: LocalTriton, rounds: int) -> None:
    """Print a row of the table for each transport."""
    generated, inputs = package(project), next(iter(sample_rows(project)))
    for transport, kind, api, module, url in [
        ("HTTP", generated.Client, http, http, triton.http_url),
        ("gRPC", generated.Client, grpc, grpc, triton.grpc_url),
        ("gRPC, asyncio", generated.AsyncClient, grpc, aio, triton.grpc_url),
    ]:
        client, bare = kind(url), module.InferenceServerClient(url.partition("://")[2])
        calls = [
            use_generated(client, project, inputs),
            use_tritonclient(bare, api, project, inputs),
        ]
        print(f"| {name}, {transport} | {await compare(calls, rounds)} |", flush=True)
        for each in (client, bare):
            closed = each.close()
            if isawaitable(closed):
                await closed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=20, help="default: 20")
    rounds = parser.parse_args().rounds
    print("| call | client, us | tritonclient, us | median ratio | ratio of the best |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        source = template(Path(folder, "template"))
        for name, answers in PIPELINES.items():
            target = Path(folder, name)
            copier.run_copy(source, target, data=answers, defaults=True, quiet=True)
            command = [sys.executable, "-m", "triton_ensemble", "repository"]
            subprocess.run(command, cwd=target, check=True)
            project = Project.load(target)
            with LocalTriton(project.repository, project.ensemble) as triton:
                asyncio.run(measure(name, project, triton, rounds))


if __name__ == "__main__":
    main()
