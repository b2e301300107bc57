"""What `batching: false` costs a step: the adapter with and without dynamic batching, one server, alternating, medians.

python -m benchmarks.storm.cost [CASE ...]
"""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

from benchmarks.steps.__main__ import (
    CONFIG,
    HERE,
    arguments,
    measure,
    ratio,
    served,
    split,
    work,
    write_adapter,
)
from benchmarks.steps.load import ModelLoad

BATCHING = "dynamic_batching { }\n"
KINDS = ["shared", "alone", "control"]  # control is shared once more: their ratio is the noise


def write_models(repository: Path, case: str) -> None:
    config = CONFIG.format(*split(work(case).INPUT), *split(work(case).OUTPUT))
    for kind in KINDS:
        version = repository / f"{case}-{kind}" / "1"
        version.mkdir(parents=True)
        own = config.replace(BATCHING, "") if kind == "alone" else config
        (version.parent / "config.pbtxt").write_text(own)
        shutil.copy(HERE / "cases" / f"{case}.py", version / "work.py")
        write_adapter(version, case)


def row(loads: dict[str, ModelLoad], concurrency: int, rounds: int, seconds: float) -> str:
    measure(loads, concurrency, 1, 1.0)  # warms up
    throughputs, _ = measure(loads, concurrency, rounds, seconds)
    shared, alone = (statistics.median(throughputs[kind]) for kind in KINDS[:2])
    ratios = [ratio(throughputs, kind, "shared") for kind in KINDS[1:]]
    return f"{shared:.0f} | {alone:.0f} | {ratios[0]:.2f} | {ratios[1]:.2f}"


def main() -> None:
    options = arguments("benchmarks.storm.cost", __doc__, ["strings", "fixed_cost"])
    print("| case | concurrency | shared/s | alone/s | alone / shared | control |\n|" + "---|" * 6)
    for case, loads in served(options.cases, KINDS, write_models):
        for count in options.concurrency:
            figures = row(loads, count, options.rounds, options.seconds)
            print(f"| {case} | {count} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
