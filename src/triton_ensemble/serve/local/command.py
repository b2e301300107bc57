"""Serve the project's ensemble with the local Triton, in the foreground, until Ctrl-C.

The command prints the addresses when the ensemble is ready. If the process of a model dies, it says so and
starts Triton again at the same addresses, unless this happened soon after each of three starts. Port 0 takes
a free port. With --reload, the command reloads models when your files change, applies pipeline.yml when you
save it, and prints what steps log.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from triton_ensemble.facts.project import Project
from triton_ensemble.facts.signals import ignore_signals
from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.process import ServerError
from triton_ensemble.serve.local.reload import Reloader
from triton_ensemble.serve.local.watch import Deaths, Follower

EXPLICIT: dict[str, Any] = {"server_args": ("--model-control-mode=explicit", "--load-model=*")}
# A cached response would be that of the code before.
RELOADS = {**EXPLICIT, "cached": False}
# A step that dies so soon after so many starts in a row would have Triton start for ever.
SOON_S, STARTS = 10.0, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the ports, whether to reload, and another repository than the project's."""
    for api, port in (("http", 8000), ("grpc", 8001), ("metrics", 8002)):
        parser.add_argument(f"--{api}-port", type=int, default=port, help=f"default: {port}")
    control = "explicit lets clients load models, as `make shift` does; default: none"
    parser.add_argument("--control", choices=("none", "explicit"), default="none", help=control)
    parser.add_argument(
        "--reload", action="store_true", help="load files that change in the project"
    )
    parser.add_argument(
        "repository", type=Path, nargs="?", help="another model repository than the project's"
    )
    parser.add_argument("model", nargs="?", help="the model of that repository to wait for")


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C (0) or until something fails (1)."""
    repository, model = arguments.repository, arguments.model
    ports = {name: getattr(arguments, name) for name in ("http_port", "grpc_port", "metrics_port")}
    failed = 0
    more = RELOADS if arguments.reload else EXPLICIT if arguments.control == "explicit" else {}
    try:
        while True:
            if arguments.reload or not (arguments.repository and arguments.model):
                project = Project.load(Path.cwd())
                repository, model = project.repository, project.ensemble
            with LocalTriton(repository, model, **ports, **more) as triton:
                meanwhile = (
                    _make_reload(project, triton) if arguments.reload else _make_watch(triton)
                )
                ready = f"{triton.model} is ready; Ctrl-C stops it; log: {triton.log}"
                urls = triton.http_url, triton.grpc_url, triton.metrics_url
                print(*triton.notes, ready, *urls, sep="\n", flush=True)
                start = time.monotonic()
                triton.wait(meanwhile)
                soon = not arguments.reload and time.monotonic() - start < SOON_S
                failed = failed + 1 if soon else 0
                ports = {f"{api}_port": port for api, port in triton.ports.items()}
                triton.keep_log = not arguments.reload  # it may say why the process has died
                if failed == STARTS:
                    what = f"a process died within {SOON_S:.0f} s of {STARTS} starts in a row"
                    raise ServerError(f"{what}; correct the step, then run: make serve")
    except KeyboardInterrupt:
        ignore_signals()
        return 0
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1


def _make_watch(triton: LocalTriton) -> Callable[[], object]:
    deaths = Deaths(triton)
    return lambda: deaths.look("Triton restarts")


def _make_reload(project: Project, triton: LocalTriton) -> Callable[[], object]:
    deaths, follower, reloader = Deaths(triton), Follower(triton), Reloader(project, triton)

    def look() -> bool:
        follower.look()
        if reloader.look():
            print("Triton restarts", flush=True)
            return True
        reloader.load(deaths.look("it is reloaded"))
        return False

    return look
