"""A real Triton on this machine, without Docker or a GPU: the one in the wheel `nvidia-pytriton`.

In Python: `with LocalTriton(Path("model_repository"), "my_ensemble") as triton: triton.http_url`
In a shell: `triton-ensemble serve`
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote
from urllib.request import ProxyHandler, build_opener

from triton_ensemble.facts.progress import Progress
from triton_ensemble.facts.project import CONFLICTS, Project
from triton_ensemble.serve.local import environment, traces
from triton_ensemble.serve.local import log as server_log
from triton_ensemble.serve.local.files import raise_limit
from triton_ensemble.serve.local.guard import Guard
from triton_ensemble.serve.local.local_repository import LocalRepository
from triton_ensemble.serve.local.own_paths import own_paths
from triton_ensemble.serve.local.ports import HOST, free_ports
from triton_ensemble.serve.local.process import (
    EXIT_TIMEOUT_S,
    ServerError,
    end,
    exit_code,
    interruptible,
    wait_alive,
)

BEHIND = 19  # the niceness of a Triton behind a gateway, which must refuse in time what Triton has no time for


class LocalTriton:
    """Triton on this machine, ready to serve `model` of `repository` inside a `with` block.

    Port 0 is a free port. The start may take `timeout` seconds. `server_args` are more flags of tritonserver.
    Without `cached` responses are not kept. Its processes have this `niceness`. Entering the block raises ServerError
    if Triton refuses the repository. Unless it is `gentle`, it is killed when the block ends well: unloading the models
    would take three seconds.

    `notes` say, a line each, how this run differs from the container. The log stays if `keep_log` is set, or if an
    error ends the block after a step has failed, whose traceback is then printed.
    """

    def __init__(
        self,
        repository: Path,
        model: str,
        *,
        http_port: int = 0,
        grpc_port: int = 0,
        metrics_port: int = 0,
        timeout: float = 120.0,
        server_args: Sequence[str] = (),
        cached: bool = True,
        niceness: int = 0,
        gentle: bool = True,
    ) -> None:
        self.repository = repository.resolve()
        self.model = model
        self.timeout = timeout
        self.server_args = server_args
        self.cached = cached
        self.niceness = niceness
        self.gentle = gentle
        self.notes: list[str] = []
        self.keep_log = False
        self._wanted_ports = {"http": http_port, "grpc": grpc_port, "metrics": metrics_port}
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None

    def __enter__(self) -> LocalTriton:
        if problem := next(environment.problems(), None) or self._problem():
            raise ServerError(problem)
        interruptible()
        raise_limit()
        free = 0 in self._wanted_ports.values()
        for tries_left in (2, 1, 0):
            self.ports = free_ports(self._wanted_ports)
            try:
                self._start(self.ports)
                break
            except ServerError as error:
                # Another program may take a free port before Triton does.
                taken_since = free and "already in use" in str(error)
                if not (tries_left and (taken_since or self._has_lost_race())):
                    raise
                shutil.rmtree(self._folder, True)
        return self

    def _start(self, ports: dict[str, int]) -> None:
        self.http_url = f"http://{HOST}:{ports['http']}"
        self.grpc_url = f"grpc://{HOST}:{ports['grpc']}"
        self.metrics_url = f"http://{HOST}:{ports['metrics']}/metrics"
        self._folder = Path(tempfile.mkdtemp(prefix="triton-"))
        self._id = f"{self._folder.name}-"  # the names of its shared memory begin with it
        self.log = self._folder / "triton.log"
        try:
            self._process = self._launch(self._folder / "backends", ports)
            os.setpriority(os.PRIO_PROCESS, self._process.pid, self.niceness)
            self._guard = Guard(self._process.pid, self._folder, self._id)
            with Progress(f"Starting the local Triton with {self.model}"):
                self._wait_until_ready(self._process)
        except BaseException as error:
            self._stop(error)
            if isinstance(error, shutil.Error):  # of copytree(): a list of files and errors
                instead = f"make room in {self._folder.parent}, or name another folder with TMPDIR"
                what = f"Triton can't be started: {error.args[0][0][2]}; {instead}"
                raise ServerError(what) from error
            if isinstance(error, OSError):
                raise ServerError(f"Triton can't be started: {error}") from error
            raise

    def __exit__(self, *raised: object) -> None:
        self._stop(raised[1])

    def traceback(self) -> str:
        """Return the traceback of the last step that failed and the log's path, or an empty string if none failed."""
        log = self.log.read_text(errors="replace") if self.log.exists() else ""
        text = server_log.last_traceback(log)
        return f"{self.ours(text)}\nlog: {self.log}" if text else ""

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process, "a server has a process inside the `with` block"
        return self._process.pid

    def wait(self, meanwhile: Callable[[], object]) -> None:
        """Call `meanwhile` until it returns something true, or raise ServerError if the server ends by itself."""
        assert self._process, "wait() belongs inside the `with` block"
        wait_alive(self._process, meanwhile, f"\nlog: {self.log}")

    def _has_lost_race(self) -> bool:
        """Return whether the Python backend killed Triton: models that start together may collide on a busy machine."""
        log = self.log.read_bytes() if self.log.exists() else b""
        return b"boost::interprocess::lock_exception" in log

    def _problem(self) -> str | None:
        models = sorted(path.parent.name for path in self.repository.glob("*/config.pbtxt"))
        known = ", ".join(models) or "none"
        missing = f"{self.repository}: has no model {self.model!r}; it has {known}"
        return None if self.model in models else missing

    def _launch(self, backends: Path, ports: dict[str, int]) -> subprocess.Popen[bytes]:
        wheel = environment.site_packages() / "pytriton" / "tritonserver"
        project = Project.find(self.repository)
        names = environment.copy_backends(wheel, backends, project.stand_ins if project else ())
        local = LocalRepository(self.repository, self._folder / "repository", names)
        if local.problems:
            raise self._error(local.problems)
        self.notes = local.notes
        flags = [
            f"--id={self._id}",
            f"--model-repository={self._folder / 'repository'}",
            f"--backend-directory={backends}",
            f"--cache-directory={wheel / 'caches'}",
            *(f"--backend-config={name},shm-region-prefix-name={self._id}" for name in names),
            *(f"--{api}-address={HOST}" for api in ports),
            *(f"--{api}-port={port}" for api, port in ports.items()),
            # A chosen port must survive a restart, with old connections still in TIME_WAIT.
            f"--reuse-http-port={int(self._wanted_ports['http'] > 0)}",
            f"--exit-timeout-secs={EXIT_TIMEOUT_S}",
            "--strict-readiness=true",
            "--disable-auto-complete-config",
            *(local.flags if self.cached else ()),
            *traces.list_flags(),
            *self.server_args,
        ]
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [wheel / "bin" / "tritonserver", *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment.variables(),
                cwd=self._folder,  # Python models can import from it: not from the project
                start_new_session=True,  # Ctrl-C in a terminal is for us, not for Triton
            )

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self.timeout
        # Triton waits for ever for a Python model that has no model.py, unless it may go on without it.
        goes_on = "--exit-on-error=false" in self.server_args
        while not self._is_ready():
            code, log = exit_code(process), self.log.read_text(errors="replace")
            if code is not None or ("Failed to preinitialize Python stub" in log and not goes_on):
                raise self._error(server_log.reasons(log) or [f"it ended with exit code {code}"])
            if time.monotonic() > deadline:
                raise self._error(
                    [f"not ready after {self.timeout:g} s{server_log.describe_loading(log)}"]
                )
            time.sleep(0.05)
        self.notes += server_log.read_backend_notes(self.log.read_text(errors="replace"))

    def _is_ready(self) -> bool:
        try:
            # Another server may hold the port that ours is about to be refused.
            ours = self._id in get(f"{self.http_url}/v2")
            get(f"{self.http_url}/v2/models/{quote(self.model)}/ready")
            get(self.metrics_url)
        except (OSError, HTTPException):  # what has the port may speak another protocol
            return False
        return ours

    def _error(self, reasons: Sequence[str]) -> ServerError:
        root = self.repository.parent
        conflicts = [
            f"{path.relative_to(root / CONFLICTS)}: merge {path.relative_to(root)} into it, then remove that file"
            for path in sorted(root.glob(f"{CONFLICTS}/{self.repository.name}/*/config.pbtxt"))
        ]
        text = "\n  ".join([f"Triton can't serve {self.repository}", *conflicts, *reasons])
        text = self.ours(text)
        return ServerError(f"{text}\nlog: {self.log}" if self.log.exists() else text)

    def ours(self, text: str) -> str:
        """Return a message of Triton with the paths of the repository, and of a project's own files."""
        text = text.replace(str(self._folder / "repository"), str(self.repository))
        return own_paths(text, self.repository)

    def _stop(self, error: object) -> None:
        explained = ""
        try:
            if self._process:
                end(self._process, self.gentle or error is not None)
            if self._guard:
                self._guard.end()
            if isinstance(error, Exception) and not isinstance(error, ServerError):
                explained = self.traceback()
        finally:
            for region in Path("/dev/shm").glob(f"{self._id}*"):
                region.unlink(missing_ok=True)
            keep_log = self.keep_log or explained or isinstance(error, ServerError)
            for name in ("backends", "repository") if keep_log and self.log.exists() else ("",):
                shutil.rmtree(self._folder / name, True)
        if explained:
            print(explained, file=sys.stderr)


def get(url: str) -> str:
    """Return the body of the answer, or raise OSError if there is none or its status is an error."""
    direct = build_opener(ProxyHandler({}))  # whatever http_proxy says
    with direct.open(url, timeout=5) as response:
        return str(response.read().decode())
