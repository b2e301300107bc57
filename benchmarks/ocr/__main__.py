"""The starting pipeline ocr, whose step calls the models, and the same as an ensemble: in turn, medians.

python -m benchmarks.ocr [--rounds 5] [--lines 1 5 50] [--concurrency 1 4]
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import copier
import numpy as np
import yaml
from PIL import Image, ImageDraw, ImageFont
from tritonclient import grpc  # type: ignore[import-untyped]

from benchmarks.generation import template
from benchmarks.processes import cpu_seconds, family
from triton_ensemble.samples.ask import ask
from triton_ensemble.server.local_triton import LocalTriton

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "ocr"
WORDS = [
    "Triton",
    "serves",
    "a",
    "pipeline",
    "of",
    "models",
    "as",
    "one",
    "ensemble:",
    "invoice",
    "48213,",
    "total",
    "1,284.50",
    "EUR",
]
PROJECTS = {"calls": "ocr", "ensemble": "ocr_ensemble"}  # and the ensembles that they serve


class Figures(NamedTuple):
    """Of each round the seconds of a request, and those of all processors."""

    wall: list[float]
    cpu: list[float]


def page(lines: int) -> bytes:
    """Return a PNG with some lines of text, in two columns where they are many."""
    draw, columns = random.Random(lines), 1 if lines < 10 else 2
    image = Image.new("L", (600 * columns, max(200, 40 + 40 * lines // columns)), "white")
    ink, font = ImageDraw.Draw(image), ImageFont.load_default(22)
    for line in range(lines):
        place = 20 + line % columns * 600, 20 + line // columns * 40
        ink.text(place, " ".join(draw.choices(WORDS, k=draw.randint(1, 5))), "black", font)
    file = BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def project(name: str, source: str, folder: Path) -> Path:
    """Generate a project with the code of its steps; complete its repository."""
    answers: dict[str, Any] = {"starting_pipeline": "ocr"}
    if name == "ensemble":
        answers = {
            "starting_pipeline": "my-own",
            **yaml.safe_load((HERE / "pipeline.yml").read_text()),
        }
    copier.run_copy(source, folder, data=answers, defaults=True, quiet=True)
    if name == "ensemble":
        for path in [*EXAMPLE.glob("steps/*.py"), *HERE.glob("steps/*.py")]:
            (folder / "steps" / path.name).write_text(
                path.read_text().replace("from step_types import ReadOutputs", "ReadOutputs = dict")
            )
        shutil.copytree(EXAMPLE / "models", folder / "models", dirs_exist_ok=True)
    command = [sys.executable, "-m", "triton_ensemble", "repository"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder


def measure(triton: LocalTriton, model: str, image: bytes, concurrency: int) -> tuple[float, float]:
    """Return the seconds of a request of several at once, and those that all processors took for it."""
    batch = [[image]] if model == "ocr" else [image]
    inputs = {"IMAGE": np.array(batch, np.object_)}
    with grpc.InferenceServerClient(triton.grpc_url.removeprefix("grpc://")) as client:
        before, start = sum(map(cpu_seconds, family(triton.pid))), time.perf_counter()
        with ThreadPoolExecutor(concurrency) as pool:
            [*pool.map(lambda _: ask(client, model, inputs), range(2 * concurrency))]
        wall = (time.perf_counter() - start) / 2
        return wall, (sum(map(cpu_seconds, family(triton.pid))) - before) / (2 * concurrency)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ocr", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=int, nargs="+", default=[1, 5, 50])
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4])
    options = parser.parse_args()
    print("| lines | at once | design | ms | processors, ms |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        source, servers = template(Path(folder, "template")), {}
        for name, model in PROJECTS.items():
            path = project(name, source, Path(folder, name))
            servers[name] = stack.enter_context(LocalTriton(path / "model_repository", model))
        for lines, at_once in itertools.product(options.lines, options.concurrency):
            figures = {name: Figures([], []) for name in PROJECTS}
            for _ in range(options.rounds + 1):
                for name, triton in servers.items():
                    wall, cpu = measure(triton, PROJECTS[name], page(lines), at_once)
                    figures[name].wall.append(wall)
                    figures[name].cpu.append(cpu)
            for name, each in figures.items():  # the first round has warmed up
                cells = (f"{1000 * statistics.median(seconds[1:]):.0f}" for seconds in each)
                print(f"| {lines} | {at_once} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
