"""Answers of a chain of steps, and a copy of the template to generate them from."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
Answers = dict[str, Any]


def chain(steps: int, **fields: Any) -> Answers:
    """Return the answers of steps that each read what the one before writes, with more fields for each."""
    return {
        "tensors": {f"T{i}": "FP32[4]" for i in range(steps + 1)},
        "steps": [
            {"name": f"step{i}", "backend": "python", "inputs": [f"T{i}"], "outputs": [f"T{i + 1}"]}
            | fields
            for i in range(steps)
        ],
    }


def template(folder: Path) -> str:
    """Copy the working tree's files without git, which is the quickest to copy from."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return str(folder)
