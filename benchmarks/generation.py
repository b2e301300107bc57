"""Time that a project takes to generate, by the size of its pipeline: `python benchmarks/generation.py [STEPS ...]`.

The time of a step should not depend on how many there are.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import copier

ROOT = Path(__file__).resolve().parents[1]
Answers = dict[str, Any]


def chain(steps: int) -> Answers:
    """Each step reads what the one before it writes."""
    return {
        "tensors": {f"T{i}": "FP32[4]" for i in range(steps + 1)},
        "steps": [step(i, [f"T{i}"], [f"T{i + 1}"]) for i in range(steps)],
    }


def fan(steps: int) -> Answers:
    """All steps read one input, and the last reads what they write."""
    middle = [f"T{i}" for i in range(1, steps)]
    return {
        "tensors": dict.fromkeys(["T0", *middle, "OUT"], "FP32[4]"),
        "steps": [
            *(step(i, ["T0"], [name]) for i, name in enumerate(middle)),
            step(steps, middle, ["OUT"]),
        ],
    }


def late(steps: int) -> Answers:
    """A chain of which each step reads an input of its own, and writes an output too."""
    rest = [f"{kind}{i}" for kind in ("IN", "OUT") for i in range(steps)]
    return {
        "tensors": dict.fromkeys([*(f"T{i}" for i in range(steps + 1)), *rest], "FP32[4]"),
        "steps": [step(i, [f"T{i}", f"IN{i}"], [f"T{i + 1}", f"OUT{i}"]) for i in range(steps)],
    }


def wide(tensors: int) -> Answers:
    """Ten steps, each of which reads and writes a tenth of the tensors."""
    names = [[f"T{i}_{j}" for j in range(tensors // 11)] for i in range(11)]
    return {
        "tensors": {name: "FP32[4]" for part in names for name in part},
        "steps": [step(i, names[i], names[i + 1]) for i in range(10)],
    }


def step(i: int, inputs: list[str], outputs: list[str]) -> Answers:
    return {"name": f"step{i}", "backend": "python", "inputs": inputs, "outputs": outputs}


def template(folder: Path) -> str:
    """A copy of the working tree's files, without git: the quickest to copy from."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return str(folder)


def seconds(source: str, answers: Answers) -> float:
    with tempfile.TemporaryDirectory() as target:
        start = time.perf_counter()
        copier.run_copy(source, target, data=answers, defaults=True, quiet=True)
        return time.perf_counter() - start


def rows(source: str, sizes: list[int]) -> Iterator[tuple[str, int, float]]:
    seconds(source, chain(1))  # what is imported once
    for shape in (chain, fan, late):
        for size in sizes:
            yield shape.__name__, size, seconds(source, shape(size))
    yield "wide: ten steps, 10,000 tensors", 10, seconds(source, wide(10_000))


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or [3, 10, 100, 1000]
    print("| pipeline | steps | s | ms a step |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for shape, size, took in rows(template(Path(folder)), sizes):
            print(f"| {shape} | {size:,} | {took:.2f} | {took / size * 1000:.1f} |", flush=True)


if __name__ == "__main__":
    main()
