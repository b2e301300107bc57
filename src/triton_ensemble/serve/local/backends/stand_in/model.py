"""Stand-in for the backend that its folder is named after.

See local_stand_in.py of the Python backend.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triton_ensemble.serve.local.backends.python.local_stand_in import StandIn
else:
    from local_stand_in import StandIn


class TritonPythonModel(StandIn):
    """Answers with zeros and empty texts."""

    backend = Path(__file__).parent.name
