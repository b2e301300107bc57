"""Applies pipeline.yml and the template's newest version, by `copier update`.

What went wrong is one line, instead of Copier's traceback, and conflicts are an error. It runs in an
environment with Copier, which `make update` makes.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from triton_ensemble.answers import LEFT_OUT
from triton_ensemble.progress import Progress
from triton_ensemble.update.removed import removed_edits

# How Copier prints the template's line about an answer: as a name that is not defined.
REFUSAL = re.compile(r"^'dict object' has no attribute (['\"])(.*)\1$", re.MULTILINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take Copier's options, such as --vcs-ref."""
    parser.add_argument("--vcs-ref", help="the template's version, instead of the newest tag")


def run(arguments: argparse.Namespace) -> int:
    """Update the project in the current folder; 1 where Copier refuses or a conflict is left."""
    if importlib.util.find_spec("copier") is None:
        sys.exit("update: needs Copier, in an environment of its own; run: make update")
    command = ["copier", "update", "--defaults", "--data-file", "pipeline.yml"]
    for name in LEFT_OUT.keys() - _answers().keys():  # Copier would keep the last answer
        command += ["--data", f"{name}={LEFT_OUT[name]}"]
    command += [f"--vcs-ref={arguments.vcs_ref}"] if arguments.vcs_ref else []
    with Progress("Rendering the template"):
        process = subprocess.run(
            [sys.executable, "-m", *command], stderr=subprocess.PIPE, text=True
        )
    print(REFUSAL.sub(r"\2", process.stderr), end="", file=sys.stderr)
    for line in removed_edits(Path.cwd()):
        print(line, file=sys.stderr)
    if unmerged := _conflicts():
        lines = "both you and the template changed lines that stand between <<<<<<< and >>>>>>>"
        sys.exit(f"{', '.join(unmerged)}: {lines}; choose, then `git add`")
    return process.returncode


def _answers() -> dict[str, Any]:
    """Return the answers of pipeline.yml; exit with a line where it can't be read."""
    try:
        with open("pipeline.yml", encoding="utf-8") as file:
            answers = yaml.safe_load(file)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        sys.exit(
            f"pipeline.yml:{line}: {error.problem}; check brackets, quotes and indentation here"
        )
    except (OSError, RecursionError, ValueError, yaml.YAMLError) as error:
        sys.exit(f"pipeline.yml: {error}")
    if not isinstance(answers, dict):
        sys.exit("pipeline.yml: has no answers; write `NAME: VALUE`")
    return answers


def _conflicts() -> list[str]:
    listed = ["git", "diff", "--name-only", "--diff-filter=U", "--relative"]
    return subprocess.run(listed, capture_output=True, text=True).stdout.split("\n")[:-1]
