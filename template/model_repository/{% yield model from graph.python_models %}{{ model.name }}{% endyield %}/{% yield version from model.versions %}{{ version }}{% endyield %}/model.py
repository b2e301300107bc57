# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Serves the steps of step.json in Triton; `make repository` puts the adapter beside this file."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # before whatever else is called `steps`

from triton_adapter.model import TritonPythonModel

__all__ = ["TritonPythonModel"]
