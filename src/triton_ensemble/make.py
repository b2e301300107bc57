"""Variables of make's command line, which reach a command through the environment."""

from __future__ import annotations

import os
import re

from triton_ensemble.project import STAGE


def read_variable(name: str) -> str:
    """Return a variable that make's command line has, else an empty text: a shell may have another of its name."""
    given = os.environ.get("MAKEFLAGS", "").split("-- ", 1)[-1]  # where make writes them
    is_given = re.search(rf"(?<![^ ])(?<!\\ ){name}:?=", given)
    return os.environ.get(name, "") if is_given else ""


def read_stage() -> str:
    """Return the stage that ENV names on make's command line, or STAGE without make; empty for none."""
    return read_variable("ENV") if "MAKEFLAGS" in os.environ else os.environ.get(STAGE, "")
