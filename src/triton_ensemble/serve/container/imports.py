"""Imports the Python models of a repository, as Triton will in this image: `python3 imports.py /models`.

Prints one line for each that can't be imported. The module that only Triton offers is a mock.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MOCK = "import sys, unittest.mock; sys.modules['triton_python_backend_utils'] = unittest.mock.MagicMock()"

OWN_ENVIRONMENT = b"EXECUTION_ENV_PATH"  # a model that brings a Python of its own

# Serves a fused ONNX model, and needs onnxruntime.
ONNX = "triton_adapter.onnx"


def problems(repository: Path) -> list[str]:
    """Return a line for each module that can't be imported: the model and Python's reason."""
    lines = []
    for model in sorted(repository.glob("*/*/model.py")):
        if OWN_ENVIRONMENT in (model.parents[1] / "config.pbtxt").read_bytes():
            continue
        for module in modules(model):
            command = [sys.executable, "-B", "-c", f"{MOCK}; import {module}"]
            run = subprocess.run(command, cwd=model.parent, stderr=subprocess.PIPE, text=True)
            if run.returncode:
                reason = (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[-1]
                lines.append(f"{model.parent.parent.name}: {reason}")
    return lines


def modules(model: Path) -> list[str]:
    """Return the modules that a model.py imports for its steps, or the file itself if it is the owner's own."""
    manifest = model.with_name("step.json")
    if not manifest.exists():
        return ["model"]
    served = json.loads(manifest.read_text())
    steps = served.get("steps", [served])
    return [f"steps.{step['module']}" if "module" in step else ONNX for step in steps]


def main(repository: str) -> int:
    """Check a repository, print the problems, and return the exit status."""
    lines = problems(Path(repository))
    for line in lines:
        print(line)
    if any("ModuleNotFoundError" in line for line in lines):
        print("Packages go into `requirements` of the step in pipeline.yml.")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
