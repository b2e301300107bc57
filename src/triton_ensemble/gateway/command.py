"""Run the REST gateway of the project, with a local Triton beside it, until Ctrl-C.

If TRITON_URL names a server (http://HOST:PORT), the gateway uses it and does not start a Triton. By default
there is one worker, which reloads when files of gateway/ change. --workers starts several, without reloading.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

from triton_ensemble.facts.client import package, protocols
from triton_ensemble.facts.project import Project, ProjectError
from triton_ensemble.gateway.settings import IN_FLIGHT, Settings
from triton_ensemble.gateway.worker import (
    CONFIG,
    FILE_BYTES,
    FOLDER,
    KINDS,
)
from triton_ensemble.serve.local.files import raise_limit
from triton_ensemble.serve.local.local_triton import BEHIND, LocalTriton
from triton_ensemble.serve.local.ports import free_ports
from triton_ensemble.serve.local.process import ServerError

OWN_FILES = 64  # of a worker: code, logs, its event loop, exporters of traces
SHM = "/dev/shm"
LOADING = "triton_ensemble.gateway.server"
RELOAD: dict[str, Any] = {"reload": True, "reload_dirs": ["gateway"]}
# Requests that are under way when it is told to stop have as long as Triton's.
SERVING: dict[str, Any] = {
    "factory": True,
    "http": "triton_ensemble.gateway.server:Connection",
    "access_log": False,
    "timeout_keep_alive": 75,  # load balancers use idle connections for 60 s: to close one first would lose a request
    "timeout_graceful_shutdown": 30,
    "server_header": False,
    "ws": "none",  # a request that asks for a WebSocket would be one that waits for ever
    "log_config": CONFIG,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where the gateway listens, and the number of processes."""
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="default: 8080; 0 takes a free port")
    folder, words = os.environ.get("TRITON_RECORD") or "recordings", "record requests there"
    parser.add_argument("--record", nargs="?", metavar="FOLDER", const=folder, help=words)
    parser.add_argument(
        "--workers", type=int, default=0, help="number of processes; 0: one, which reloads"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C (0), or say in a line what is in the way (1)."""
    project = Project.load(Path.cwd())
    if not (project.root / "gateway" / "app.py").is_file():
        raise ProjectError("gateway/: not there; add gateway to extras in pipeline.yml")
    try:
        from triton_ensemble.gateway.serving import serve
    except ImportError as error:
        raise ProjectError(f"the gateway needs {error.name}; run: make gateway") from None
    sys.path.insert(0, str(project.root))
    # If the client is not installed, the application finds it in src/ from now on.
    recorder = package(project, "runtime.recorder")
    try:
        recorder.read_limits()
        connections = _limit_connections(Settings.read())
        if arguments.record:
            os.environ["TRITON_RECORD"] = arguments.record
            os.makedirs(arguments.record, 0o700, exist_ok=True)
            tempfile.TemporaryFile(dir=arguments.record).close()
    except OSError as error:
        what = f"TRITON_RECORD is {arguments.record}: {error.strerror}; write another folder"
        print(what, file=sys.stderr)
        return 1
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that Triton is stopped, too
    try:
        if arguments.workers:
            from triton_ensemble.gateway.server import application

            application()  # what is wrong with it is said before Triton is started, and once
        [port] = free_ports({"gateway": arguments.port}).values()
        with (
            _triton(project) as url,
            tempfile.TemporaryDirectory(dir=_memory(arguments.workers)) as metrics,
        ):
            os.environ |= {"TRITON_URL": url}
            if arguments.workers > 1:
                os.environ[FOLDER] = metrics
            url = f"http://{arguments.host}:{port}"
            ready = f"{project.ensemble} at {url}, where POST /predict asks it; Ctrl-C stops it"
            print(ready, flush=True)
            app = f"{LOADING}:{'worker' if arguments.workers else 'make_reloaded'}"
            more: dict[str, Any] = {"workers": arguments.workers} if arguments.workers else RELOAD
            serve(
                app,
                host=arguments.host,
                port=port,
                limit_concurrency=connections,
                **more,
                **SERVING,
            )
    except KeyboardInterrupt:
        return 0
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _limit_connections(settings: Settings) -> int:
    """Return how many connections a worker may have without a lack of files for its connections to Triton."""
    files, own = raise_limit(), OWN_FILES + IN_FLIGHT * settings.concurrency
    needed = own + settings.concurrency + settings.waiting
    if files < needed:
        what = f"GATEWAY_CONCURRENCY={settings.concurrency} needs {needed}; raise it, or lower that"
        print(f"ulimit -n is {files}, and {what}", file=sys.stderr, flush=True)
    return max(files - own, 8)


@contextlib.contextmanager
def _triton(project: Project) -> Iterator[str]:
    if url := os.environ.get("TRITON_URL"):
        spoken = protocols(project)
        if not re.match(rf"({'|'.join(spoken)})s?://[^/]", url):
            forms = " or ".join(f"{protocol}://HOST:PORT" for protocol in spoken)
            raise ProjectError(f"TRITON_URL is {url}; write {forms}")
        yield url
        return
    with (
        LocalTriton(project.repository, project.ensemble, niceness=BEHIND) as triton,
        ThreadPoolExecutor(1) as pool,
    ):
        print(*triton.notes, f"log of Triton and its steps: {triton.log}", sep="\n", flush=True)
        is_over = Event()
        ended = pool.submit(triton.wait, is_over.is_set)  # raises ServerError if Triton ends
        ended.add_done_callback(
            lambda _: None if is_over.is_set() else os.kill(os.getpid(), signal.SIGINT)
        )
        try:
            yield triton.grpc_url if project.decoupled else triton.http_url
        finally:
            is_over.set()
        ended.result()


def _memory(workers: int) -> str | None:
    """Return a folder in memory with room for the counters of all workers, or None if there is none.

    If the mapped counters were on a disk, workers would wait for it to write.
    """
    needed = 2 * workers * len(KINDS) * FILE_BYTES  # also of workers in the place of others
    has_room = os.access(SHM, os.W_OK) and shutil.disk_usage(SHM).free > needed
    return SHM if has_room else None
