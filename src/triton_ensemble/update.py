"""Applies pipeline.yml and the template's newest version, by `copier update`.

What went wrong is one line, instead of Copier's traceback, and conflicts are an error.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import yaml

from triton_ensemble.answers import LEFT_OUT

# How Copier prints the template's line about an answer: as a name that is not defined.
REFUSAL = re.compile(r"^'dict object' has no attribute (['\"])(.*)\1$", re.MULTILINE)


def given() -> dict[str, Any]:
    """The answers of pipeline.yml; ends with a line where it can't be read."""
    try:
        with open("pipeline.yml", encoding="utf-8") as file:
            answers = yaml.safe_load(file)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        sys.exit(
            f"pipeline.yml:{line}: {error.problem}; check brackets, quotes and indentation here"
        )
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        sys.exit(f"pipeline.yml: {error}")
    if not isinstance(answers, dict):
        sys.exit("pipeline.yml: has no answers; write `NAME: VALUE`")
    return answers


def conflicts() -> list[str]:
    listed = ["git", "diff", "--name-only", "--diff-filter=U", "--relative"]
    return subprocess.run(listed, capture_output=True, text=True).stdout.split("\n")[:-1]


def main() -> int:
    command = ["copier", "update", "--defaults", "--data-file", "pipeline.yml", *sys.argv[1:]]
    for name in LEFT_OUT.keys() - given().keys():  # Copier would keep the last answer
        command += ["--data", f"{name}={LEFT_OUT[name]}"]
    process = subprocess.run([sys.executable, "-m", *command], stderr=subprocess.PIPE, text=True)
    print(REFUSAL.sub(r"\2", process.stderr), end="", file=sys.stderr)
    if unmerged := conflicts():
        lines = "both you and the template changed lines that stand between <<<<<<< and >>>>>>>"
        sys.exit(f"{', '.join(unmerged)}: {lines}; choose, then `git add`")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
