"""Time that `make check` takes for 100 models, start of Python included: `python -m benchmarks.check`.

The bar is 1.2 seconds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import copier

from benchmarks.generation import chain, template


def main() -> None:
    with tempfile.TemporaryDirectory() as source, tempfile.TemporaryDirectory() as project:
        answers = chain(99)
        for step in answers["steps"]:
            step["fuse"] = False
        copier.run_copy(template(Path(source)), project, data=answers, defaults=True, quiet=True)
        run(project, "repository")
        took = [run(project, "check") for _ in range(5)]
    print(f"make check of 99 steps and their ensemble: {median(took):.2f} s")


def run(project: str, command: str) -> float:
    words = [sys.executable, "-m", "triton_ensemble", command]
    start = time.perf_counter()
    subprocess.run(words, cwd=project, check=True, stdout=sys.stderr)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
