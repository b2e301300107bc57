"""The time in which a project of so many steps is written, and that of plain Copier and cookiecutter for the same bytes.

Their templates are the finished files, each rendered as a whole and nothing decided: what the tools themselves take.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from benchmarks.generation import chain
from benchmarks.peers.environments import environment

SIZES = [3, 10, 100, 1000]
TOOLS = ["ours", "Copier", "cookiecutter"]
Commands = dict[str, Callable[[Path], list[str]]]


def commands(source: str, steps: int, folder: Path) -> Commands:
    """Return the command of each tool, by the folder that it writes the project into."""
    answers = folder / "answers.yml"
    answers.write_text(yaml.safe_dump({"project_name": "written", **chain(steps)}))
    copy = [str(Path(sys.executable).with_name("copier")), "copy", "--quiet", "--defaults"]

    def ours(target: Path) -> list[str]:
        return [*copy, "--data-file", str(answers), source, str(target / "written")]

    quietly(ours(folder))
    plain, cut = folder / "copier", folder / "cookiecutter"
    for file in files(folder / "written"):
        name = file.relative_to(folder / "written")
        verbatim(file, plain / f"{name}.jinja")
        verbatim(file, cut / "{{ cookiecutter.name }}" / name)
    (cut / "cookiecutter.json").write_text('{"name": "written"}')
    cutter = str(environment("cookiecutter") / "cookiecutter")
    return {
        "ours": ours,
        "Copier": lambda target: [*copy, str(plain), str(target / "written")],
        "cookiecutter": lambda target: [cutter, "--no-input", "-o", str(target), str(cut)],
    }


def quietly(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def verbatim(file: Path, target: Path) -> None:
    """Write a template of a file: all of it raw, or the file itself if it is not text."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        text = file.read_text()
    except UnicodeDecodeError:
        shutil.copy2(file, target.with_suffix("") if target.suffix == ".jinja" else target)
    else:
        target.write_text("{% raw %}" + text + "{% endraw %}")
        target.chmod(file.stat().st_mode)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in files(folder)}


def seconds(command: Callable[[Path], list[str]], expected: dict[str, bytes]) -> float:
    """Return the time of a command, which must write what is expected."""
    with TemporaryDirectory() as target:
        start = time.perf_counter()
        quietly(command(Path(target)))
        took = time.perf_counter() - start
        if content(Path(target, "written")) != expected:
            raise RuntimeError(f"{command(Path(target))} writes other files")
    return took


def rows(source: str, sizes: list[int], rounds: int) -> Iterator[dict[str, Any]]:
    """Yield for each size how many files and bytes there are, and the seconds of each tool by round."""
    for steps in sizes:
        with TemporaryDirectory() as folder:
            tools = commands(source, steps, Path(folder))
            expected = content(Path(folder, "written"))
            took: dict[str, list[float]] = {tool: [] for tool in tools}
            for _ in range(rounds):
                for tool, command in tools.items():
                    took[tool].append(round(seconds(command, expected), 3))
            size = sum(map(len, expected.values()))
            yield {"steps": steps, "files": len(expected), "bytes": size, **took}


def table(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown: medians, and ours over plain Copier's."""
    yield "| steps | files | kB | ours, s | plain Copier, s | cookiecutter, s | ours / Copier |"
    yield "|---|---|---|---|---|---|---|"
    for one in found:
        times = [statistics.median(one[tool]) for tool in TOOLS]
        cells = [f"{one['steps']:,}", f"{one['files']:,}", f"{one['bytes'] / 1000:,.0f}"]
        cells += [f"{each:.2f}" for each in times] + [f"{times[0] / times[1]:.1f}"]
        yield f"| {' | '.join(cells)} |"
