"""Make the model endpoint of deploy/tir/endpoint.yml on TIR, with TIR's own SDK.

The SDK reads E2E_TIR_API_KEY, E2E_TIR_ACCESS_TOKEN, E2E_TIR_TEAM_ID, E2E_TIR_PROJECT_ID and E2E_TIR_LOCATION.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

from triton_ensemble.deploy.tir import EndpointError
from triton_ensemble.deploy.tir.endpoint import call, read
from triton_ensemble.facts.project import Project

MISSING = "in a project run: make tir, elsewhere: pip install e2enetworks==1.4.9"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare whether only to print the call."""
    parser.add_argument("--print", action="store_true", help="only print the call of the SDK")


def run(arguments: argparse.Namespace) -> int:
    """Make the endpoint, or print the call that would make it.

    Print a line and return 1 if that is impossible.
    """
    try:
        project = Project.load(Path.cwd())
        method, given = call(read(project.root), project.ensemble)
        if arguments.print:
            print(json.dumps({method: given}, indent=2))
            return 0
        answer = _call_sdk(method, given)
    except EndpointError as error:
        print(error, file=sys.stderr)
        return 1
    number = getattr(answer, "id", "ID")
    print(f"endpoint {given['endpoint_name']}, number {number}: TIR shows when it runs")
    return 0


def _call_sdk(method: str, arguments: dict[str, Any]) -> Any:
    """Return what TIR answers, or raise EndpointError if it refuses or the SDK lacks something."""
    said = io.StringIO()  # the SDK prints each address, with the key in it
    try:
        with contextlib.redirect_stdout(said):
            tir: Any = importlib.import_module("e2enetworks.cloud.tir")
            made, answer = getattr(tir.EndPoints(), method)(**arguments)
    except ModuleNotFoundError as error:
        raise EndpointError(f"{error}; {MISSING}") from None
    except Exception as error:  # whatever the SDK and its HTTP client raise
        text = " ".join(str(error).split())
        if text == arguments["plan"]:
            text = f"plan {text}: TIR does not have a plan of that name now; list_plans prints its plans"
        raise EndpointError(
            re.sub(r"apikey=[^&\s]*", "apikey=...", text) or type(error).__name__
        ) from None
    if not made:
        refusals = [line for line in said.getvalue().splitlines() if line.startswith("ERROR:")]
        raise EndpointError(f"TIR refuses it: {' '.join(refusals) or 'without a reason'}")
    return answer
