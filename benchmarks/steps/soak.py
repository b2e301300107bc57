"""Many requests, some of them bad: each good one answered rightly, each bad one refused by name, the step's memory flat.

python -m benchmarks.steps.soak [--requests 1000000]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tritonclient.http as triton_http  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from benchmarks.steps.__main__ import write_adapter
from benchmarks.steps.load import process_of
from triton_ensemble.server.local_triton import LocalTriton

MODEL = "soak"
STEP = """from triton_step import InvalidRequest


class Step:
    def __init__(self, context):
        pass

    def __call__(self, IN):
        for row in IN:
            if row[0] < 0:
                raise InvalidRequest(f"IN: {row[0]:g} is below 0")
        return {"OUT": IN * 2}
"""
CONFIG = """backend: "python"
max_batch_size: 32
input { name: "IN" data_type: TYPE_FP32 dims: [4] }
output { name: "OUT" data_type: TYPE_FP32 dims: [4] }
instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { }
"""


class Report(NamedTuple):
    """How many requests had which end, and the memory (bytes) of the step's process, over the time from warm to end."""

    ends: Counter[str]
    memory: list[int]
    seconds: float

    @property
    def grown(self) -> int:
        """Bytes, from the highest of the first half to the highest of the second."""
        half = len(self.memory) // 2
        return max(self.memory[half:]) - max(self.memory[:half])


def write_model(repository: Path) -> None:
    version = repository / MODEL / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(CONFIG)
    write_adapter(version, MODEL)
    (version / "steps" / "it.py").write_text(STEP)


def asked(client: triton_http.InferenceServerClient, value: float) -> str:
    """How a request of this value ended: answered, refused, or wrong, with what came."""
    given = triton_http.InferInput("IN", [1, 4], "FP32")
    given.set_data_from_numpy(np.full((1, 4), value, np.float32))
    try:
        answer = client.infer(MODEL, [given]).as_numpy("OUT")
    except InferenceServerException as error:
        refused = str(error.message()) == f"step {MODEL}: IN: {value:g} is below 0"
        return "refused" if refused and value < 0 else f"wrong: {error.message()}"
    right = value >= 0 and answer.tolist() == [[2 * value] * 4]
    return "answered" if right else f"wrong: {answer}"


def client_of(url: str, requests: int, seed: int) -> Counter[str]:
    """The ends of a client's requests, 1 % of which are bad."""
    numbers, ends = random.Random(seed), Counter[str]()
    with triton_http.InferenceServerClient(url.removeprefix("http://")) as client:
        for _ in range(requests):
            value = numbers.randrange(1, 1000)
            ends[asked(client, -value if numbers.random() < 0.01 else value)] += 1
    return ends


def memory_of(model: str) -> int:
    """Bytes that the process of a model holds, without what it shares."""
    lines = (process_of(model) / "status").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def soak(requests: int, concurrency: int = 32) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        with LocalTriton(Path(folder), MODEL) as triton:
            return soaked(triton, requests, concurrency)


def soaked(triton: LocalTriton, requests: int, concurrency: int) -> Report:
    client_of(triton.http_url, 2000, 0)  # warms up
    memory, over = [memory_of(MODEL)], threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            memory.append(memory_of(MODEL))

    start, watcher = time.perf_counter(), threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(concurrency) as pool:
        each = requests // concurrency
        clients = [pool.submit(client_of, triton.http_url, each, i) for i in range(concurrency)]
        ends = sum((client.result() for client in clients), Counter[str]())
    over.set()
    watcher.join()
    return Report(ends, [*memory, memory_of(MODEL)], time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps.soak", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--concurrency", type=int, default=32)
    report = soak(**vars(parser.parse_args()))
    print(*(f"{count} {end}" for end, count in report.ends.most_common()), sep="\n")
    first, last, most = (x / 2**20 for x in (report.memory[0], report.memory[-1], report.grown))
    print(f"memory of the step: {first:.1f} MiB, at the end {last:.1f}, grown by {most:.2f}")
    print(f"{report.seconds:.0f} s")


if __name__ == "__main__":
    main()
