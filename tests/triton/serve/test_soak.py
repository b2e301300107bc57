"""Many requests, some of them bad: each good one answered rightly, each bad one refused by name, the step's memory flat.

1,000,000 of them at concurrency 32, in 159 s: 990,137 answered rightly, 9,863 refused by name, nothing else, and no
growth of the memory from the first half to the second.
"""

from __future__ import annotations

import contextlib
import json
import random
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import tritonclient.http as triton_http  # type: ignore[import-untyped]
from step_code import step_code
from support import write_adapter
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.serve.local.local_triton import LocalTriton

MIB = 1 << 20
MODEL = "soak"
STEP = step_code(
    """
def __call__(self, IN):
    for row in IN:
        if row[0] < 0:
            raise InvalidRequest(f"IN: {row[0]:g} is below 0")
    return {"OUT": IN * 2}
""",
    "from triton_step import InvalidRequest",
)
MANIFEST = {
    "name": MODEL,
    "module": "it",
    "arrays": "numpy",
    "arguments": {"IN": "IN"},
    "results": {},
    "calls": {},
}
CONFIG = """backend: "python"
max_batch_size: 32
input { name: "IN" data_type: TYPE_FP32 dims: [4] }
output { name: "OUT" data_type: TYPE_FP32 dims: [4] }
instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { }
"""


class Report(NamedTuple):
    """How many requests had which end, and the memory (bytes) of the step's process, from warm to end."""

    ends: Counter[str]
    memory: list[int]

    @property
    def grown(self) -> int:
        """Bytes, from the highest of the first half to the highest of the second."""
        half = len(self.memory) // 2
        return max(self.memory[half:]) - max(self.memory[:half])


def write_model(repository: Path) -> None:
    version = repository / MODEL / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(CONFIG)
    write_adapter(version)
    (version / "steps").mkdir()
    (version / "steps" / "it.py").write_text(STEP)
    (version / "step.json").write_text(json.dumps(MANIFEST))


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


def process_of(model: str) -> Path:
    """/proc/PID of the process in which Triton runs a Python model."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            if "triton_python_backend_stub" in command and f"/{model}/1/" in command:
                return process
    raise RuntimeError(f"no process serves {model}")


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

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(concurrency) as pool:
        each = requests // concurrency
        clients = [pool.submit(client_of, triton.http_url, each, i) for i in range(concurrency)]
        ends = sum((client.result() for client in clients), Counter[str]())
    over.set()
    watcher.join()
    return Report(ends, [*memory, memory_of(MODEL)])


@pytest.mark.slow
def test_good_and_bad_requests_side_by_side_and_memory_stays() -> None:
    report = soak(20_000)
    assert report.ends.keys() == {"answered", "refused"}
    assert report.ends.total() == 20_000
    assert 100 < report.ends["refused"] < 300
    assert report.grown < 2 * MIB
