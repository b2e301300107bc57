"""Time to update a project of ten steps against the time to copy it: `python -m benchmarks.update`.

Both by Copier's command line, from and to a tag of a local repository, alternating, medians. The bar is 3.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from shutil import rmtree
from statistics import median

import yaml

from benchmarks.generation import chain, template

COPIER = str(Path(sys.prefix) / "bin" / "copier")
ROUNDS = 7


def run(*command: str, cwd: Path) -> tuple[float, float]:
    """Seconds by the clock, and of processor time."""
    wall, before = time.perf_counter(), os.times()
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)
    after = os.times()
    used = after.children_user + after.children_system
    return time.perf_counter() - wall, used - before.children_user - before.children_system


def commit(folder: Path, *tag: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "state"]):
        run("git", *author, *command, cwd=folder)
    for name in tag:
        run("git", "tag", name, cwd=folder)


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        source, project, answers = (Path(name) / part for part in ("source", "project", "a.yml"))
        source.mkdir()
        template(source)
        commit(source, "v1.0.0")
        makefile = source / "template" / "Makefile.jinja"
        makefile.write_text(makefile.read_text() + "\n# Changed.\n")
        commit(source, "v1.1.0")
        answers.write_text(yaml.safe_dump(chain(10)))
        copy = [COPIER, "copy", "-q", "--defaults", "--data-file", str(answers)]
        for _ in range(ROUNDS):
            rmtree(project, ignore_errors=True)
            copied = run(*copy, "-r", "v1.0.0", str(source), str(project), cwd=Path(name))
            commit(project)
            updated = run(COPIER, "update", "-q", "--defaults", cwd=project)
            rows.append((*copied, *updated))
    print("| | copy, s | update, s | ratio |\n|---|---|---|---|")
    for clock, (copies, updates) in {
        "by the clock": (0, 2),
        "of processor time": (1, 3),
    }.items():
        a, b = (median(row[column] for row in rows) for column in (copies, updates))
        print(f"| {clock} | {a:.2f} | {b:.2f} | {b / a:.2f} |")


if __name__ == "__main__":
    main()
