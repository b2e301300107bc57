"""The adapter against model.py files written by hand: the same work, one server, alternating, medians.

python -m benchmarks.steps [CASE ...]
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.steps.load import ModelLoad
from triton_ensemble.repository.sources import iter_adapter_files
from triton_ensemble.server.local_triton import LocalTriton

HERE = Path(__file__).parent
[MODEL_PY] = HERE.parents[1].glob("template/model_repository/*python_models*/*/model.py")
CASES = ["arithmetic", "normalise", "onnx_network", "strings", "fixed_cost"]
BY_HAND = ["by_request", "loop", "joined"]
CONTROL = "control"  # by_request once more: their ratio is the noise of this machine
KINDS = ["adapter", *BY_HAND, CONTROL]
CONCURRENCIES = [1, 8, 32]
STEP = """from work import compute

class Step:
    def __init__(self, context):
        pass

    def __call__(self, IN):
        return {"OUT": compute(IN)}
"""
CONFIG = """backend: "python"
max_batch_size: 32
input {{ name: "IN" data_type: TYPE_{} dims: {} }}
output {{ name: "OUT" data_type: TYPE_{} dims: {} }}
instance_group {{ count: 1 kind: KIND_CPU }}
dynamic_batching {{ }}
"""


def work(case: str) -> Any:
    return importlib.import_module(f"benchmarks.steps.cases.{case}")


def split(tensor: str) -> tuple[str, str]:
    """`FP32[3, 4]` -> FP32, [3, 4]."""
    kind, _, dims = tensor.partition("[")
    return kind, "[" + dims


def write_models(repository: Path, case: str) -> None:
    config = CONFIG.format(*split(work(case).INPUT), *split(work(case).OUTPUT))
    for kind in KINDS:
        version = repository / f"{case}-{kind}" / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(config)
        shutil.copy(HERE / "cases" / f"{case}.py", version / "work.py")
        if kind == "adapter":
            write_adapter(version, case)
        else:
            source = "by_request" if kind == CONTROL else kind
            shutil.copy(HERE / "models" / f"{source}.py", version / "model.py")


def write_adapter(version: Path, case: str) -> None:
    shutil.copy(MODEL_PY, version)
    for target, source in iter_adapter_files(version):
        target.parent.mkdir(exist_ok=True)
        shutil.copy(source, target)
    (version / "steps").mkdir()
    (version / "steps" / "it.py").write_text(STEP)
    spelled: dict[str, Any] = {"arguments": {"IN": "IN"}, "results": {}, "calls": {}}
    manifest = {"name": case, "module": "it", "arrays": "numpy", **spelled}
    (version / "step.json").write_text(json.dumps(manifest))


def request_of(case: str) -> NDArray[np.generic]:
    """One row."""
    kind, dims = split(work(case).INPUT)
    if kind == "STRING":
        return np.full((1, *json.loads(dims)), "Fließtext ".encode() * 4, np.object_)
    values = np.random.default_rng(0).integers(0, 255, (1, *json.loads(dims)))
    return values.astype({"FP32": np.float32, "UINT8": np.uint8}[kind])


Rounds = dict[str, list[float]]  # by kind, a number for each round


def measure(
    loads: dict[str, ModelLoad], concurrency: int, rounds: int, seconds: float
) -> tuple[Rounds, Rounds]:
    """Answers a second and processor time for an answer; the order turns, so that none is always first."""
    throughputs: Rounds = {kind: [] for kind in loads}
    costs: Rounds = {kind: [] for kind in loads}
    for i in range(rounds):
        kinds = list(loads)
        for kind in kinds[i % len(kinds) :] + kinds[: i % len(kinds)]:
            throughput, cost = loads[kind].measure(concurrency, seconds)
            throughputs[kind].append(throughput)
            costs[kind].append(cost)
    return throughputs, costs


def ratio(throughputs: Rounds, mine: str, *kinds: str) -> float:
    """The throughput of `mine` over that of the fastest of `kinds`: the median of the rounds' ratios."""
    return min(
        statistics.median(
            one / other for one, other in zip(throughputs[mine], throughputs[kind], strict=True)
        )
        for kind in kinds
    )


def arguments(prog: str, description: str | None, cases: list[str]) -> argparse.Namespace:
    """Read which cases to measure, `cases` by default, and how."""
    parser = argparse.ArgumentParser(prog=f"python -m {prog}", description=description)
    parser.add_argument("cases", nargs="*", default=cases, metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each measurement")
    parser.add_argument("--concurrency", type=int, nargs="+", default=CONCURRENCIES)
    return parser.parse_args()


def served(
    cases: list[str], kinds: list[str], write: Callable[[Path, str], None]
) -> Iterator[tuple[str, dict[str, ModelLoad]]]:
    """Serve all cases at once, as `write` makes their models; yield each with the load of its kinds."""
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            write(Path(folder), case)
        with LocalTriton(Path(folder), f"{cases[0]}-{kinds[0]}") as triton:
            for case in cases:
                request = request_of(case)
                yield (
                    case,
                    {
                        kind: ModelLoad(triton.http_url, f"{case}-{kind}", "IN", request)
                        for kind in kinds
                    },
                )


def main() -> None:
    options = arguments("benchmarks.steps", __doc__, CASES)
    columns = "case, concurrency, adapter/s, / by request, / fastest by hand, control"
    columns += "".join(f", us {kind}" for kind in KINDS[:-1])
    print(f"| {columns.replace(', ', ' | ')} |\n{'|---' * len(columns.split(', '))}|")
    for case, loads in served(options.cases, KINDS, write_models):
        for concurrency in options.concurrency:
            measure(loads, concurrency, 1, 1.0)  # warms up
            throughputs, costs = measure(loads, concurrency, options.rounds, options.seconds)
            middle = statistics.median(throughputs["adapter"])
            ratios = [
                ratio(throughputs, "adapter", "by_request"),
                ratio(throughputs, "adapter", "loop", "joined"),
                ratio(throughputs, CONTROL, "by_request"),
            ]
            cpu = [statistics.median(costs[kind]) for kind in KINDS[:-1]]
            cells = [case, concurrency, f"{middle:.0f}", *(f"{one:.2f}" for one in ratios)]
            cells += [f"{one:.0f}" for one in cpu]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
