# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Applies pipeline.yml and the template's newest version, by `copier update`.

What went wrong is one line, instead of Copier's traceback, and conflicts are an error.
"""

from __future__ import annotations

import re
import subprocess
import sys

import yaml

# How Copier prints the template's line about an answer: as a name that is not defined.
REFUSAL = re.compile(r"^'dict object' has no attribute (['\"])(.*)\1$", re.MULTILINE)


def problem() -> str | None:
    """What keeps pipeline.yml from being read."""
    try:
        with open("pipeline.yml", encoding="utf-8") as file:
            answers = yaml.safe_load(file)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        return f"pipeline.yml:{line}: {error.problem}; check brackets, quotes and indentation here"
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        return f"pipeline.yml: {error}"
    return (
        None if isinstance(answers, dict) else "pipeline.yml: has no answers; write `NAME: VALUE`"
    )


def conflicts() -> list[str]:
    listed = ["git", "diff", "--name-only", "--diff-filter=U", "--relative"]
    return subprocess.run(listed, capture_output=True, text=True).stdout.split("\n")[:-1]


def main() -> int:
    if found := problem():
        sys.exit(found)
    command = ["copier", "update", "--defaults", "--data-file", "pipeline.yml", *sys.argv[1:]]
    process = subprocess.run([sys.executable, "-m", *command], stderr=subprocess.PIPE, text=True)
    print(REFUSAL.sub(r"\2", process.stderr), end="", file=sys.stderr)
    if unmerged := conflicts():
        lines = "both you and the template changed lines that stand between <<<<<<< and >>>>>>>"
        sys.exit(f"{', '.join(unmerged)}: {lines}; choose, then `git add`")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
