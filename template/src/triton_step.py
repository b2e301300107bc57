# Managed by triton-ensemble-template: edits are merged by `make update`.
"""What a Python step may use of the project; it stands next to the step's code wherever Triton runs it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


class InvalidRequest(ValueError):
    """Raise it for an input that the client must correct: the text goes to the client, as status 400 or INVALID_ARGUMENT."""


@dataclass(frozen=True)
class Context:
    """What a step is told when it is made.

    parameters: the step's `parameters` in pipeline.yml.
    directory: the model's version folder, for files that lie next to the code.
    device: "cpu", or "cuda:N" for the GPU that this instance was given.
    logger: writes to Triton's log.
    """

    parameters: Mapping[str, str] = field(default_factory=dict)
    directory: Path = Path()
    device: str = "cpu"
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("step"))
