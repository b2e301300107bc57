"""Imports the Python models of a repository, as Triton will in this image: `python3 imports.py /models`.

One line for each that can't be; what only Triton has to offer is made up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TRITON = "import sys, unittest.mock; sys.modules['triton_python_backend_utils'] = unittest.mock.MagicMock()"


def problems(repository: Path) -> list[str]:
    found = []
    for model in sorted(repository.glob("*/*/model.py")):
        for module in modules(model):
            command = [sys.executable, "-B", "-c", f"{TRITON}; import {module}"]
            run = subprocess.run(command, cwd=model.parent, stderr=subprocess.PIPE, text=True)
            if run.returncode:
                reason = (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[-1]
                found.append(f"{model.parent.parent.name}: {reason}")
    return found


def modules(model: Path) -> list[str]:
    """Those of the steps that a model.py serves, and of what else it needs; itself, if it is the owner's."""
    manifest = model.with_name("step.json")
    if not manifest.exists():
        return ["model"]
    found = json.loads(manifest.read_text())
    steps = found.get("steps", [found])
    return [f"steps.{step['module']}" if "module" in step else "triton_onnx" for step in steps]


if __name__ == "__main__":
    if lines := problems(Path(sys.argv[1])):
        print(*lines, sep="\n")
        if any("ModuleNotFoundError" in line for line in lines):
            print("Packages go into `requirements` of the step in pipeline.yml.")
        sys.exit(1)
