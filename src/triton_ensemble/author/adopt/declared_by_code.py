"""Inputs and outputs that the code of Python models declares by `auto_complete_config`, but their configs do not.

The servers of a project load only complete configs, so adopt writes them into the config.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from google.protobuf import json_format  # type: ignore[import-untyped, unused-ignore]

from triton_ensemble.author.adopt import ask_code
from triton_ensemble.author.adopt.ensembles import Models
from triton_ensemble.author.adopt.refusal import Refused, config_of
from triton_ensemble.facts.config import Model
from triton_ensemble.facts.config.message import format_json, new_config

PACKAGES = Path(__file__).parents[3]  # where this package is imported from
TIMEOUT_S = 60.0


def complete_by_code(models: Models, may_run: bool) -> dict[str, tuple[str, str]]:
    """Complete configs in place.

    Return, by the model's name, what is wrong with a config that stays incomplete and what to do.
    """
    failed: dict[str, tuple[str, str]] = {}
    for model in models.values():
        declares_all = model.config.input and model.config.output
        if model.backend == "python" and not declares_all and _code(model).is_file():
            reason = _complete(model) if may_run and model.completes_config else ""
            if model.completes_config:  # still, unless its code has completed it
                failed[model.name] = _words(model, reason)
    return failed


def refuse_failed(failed: Mapping[str, tuple[str, str]], models: Iterable[str]) -> None:
    """Raise Refused for the first of the models whose config is not complete."""
    for name in (name for name in models if name in failed):
        what, instead = failed[name]
        raise Refused(config_of(name), f"declares no inputs or no outputs; {what}", instead)


def _words(model: Model, reason: str) -> tuple[str, str]:
    code = f"auto_complete_config of {_code(model).relative_to(model.folder).as_posix()}"
    if reason:
        what, instead = f"{code} fails here: {reason}", "install what it imports"
    else:
        what, instead = f"{code} does", "run adopt with --run-code, which calls it"
    return what, f"{instead}, or declare them in config.pbtxt"


def _code(model: Model) -> Path:
    version = str(next(iter(model.loaded), 1))
    return model.folder / version / (model.config.default_model_filename or "model.py")


def _complete(model: Model) -> str:
    """Complete a config, and return why the code can't be asked, or an empty text."""
    command = [sys.executable, "-B", "-m", ask_code.__name__, str(_code(model).resolve())]
    given = format_json(model.config).encode()
    try:
        run = subprocess.run(
            command, input=given, capture_output=True, cwd=PACKAGES, timeout=TIMEOUT_S
        )
        if run.returncode:
            said = run.stderr.decode(errors="replace").strip()
            return [f"exit status {run.returncode}", *said.splitlines()][-1]
        completed = json_format.ParseDict(json.loads(run.stdout), new_config())
    except subprocess.TimeoutExpired:
        return f"it takes longer than {TIMEOUT_S:g} s"
    except (ValueError, json_format.ParseError) as error:
        return f"{type(error).__name__}: {error}"
    model.config.CopyFrom(completed)
    model.config.backend = "python"
    model.completes_config = False
    return ""
