# Managed by triton-ensemble-template: edits are merged by `make update`.
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
        manifest = model.with_name("step.json")
        step = json.loads(manifest.read_text())["module"] if manifest.exists() else None
        code = f"{TRITON}; import {f'steps.{step}' if step else 'model'}"
        command = [sys.executable, "-B", "-c", code]
        run = subprocess.run(command, cwd=model.parent, stderr=subprocess.PIPE, text=True)
        if run.returncode:
            reason = (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[-1]
            found.append(f"{model.parent.parent.name}: {reason}")
    return found


if __name__ == "__main__":
    if lines := problems(Path(sys.argv[1])):
        print(*lines, "Packages go into `requirements` of the step in pipeline.yml.", sep="\n")
        sys.exit(1)
