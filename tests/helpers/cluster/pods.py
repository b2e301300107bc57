"""A pod of deploy/kubernetes without a cluster: what its container would run, on the local Triton.

A pod has an address of its own in 127.0.0.0/8, so the ports are those of the manifest. A folder stands for the
container's root: it has what the Dockerfile copies there, and paths of the container are mapped into it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

from triton_ensemble.facts.project import Project
from triton_ensemble.serve.local import environment
from triton_ensemble.serve.local.local_repository import LocalRepository

PATHS = re.compile(r"(?<![\w./])/(?=(?:opt|tmp|models)\b)")  # of the container
DIRECT = build_opener(ProxyHandler({}))
Spec = Mapping[str, Any]


def entrypoint(dockerfile: Path) -> list[str]:
    """Return the command of the image, without NVIDIA's own script that runs it."""
    [line] = re.findall(r"^ENTRYPOINT (\[.*\])$", dockerfile.read_text(), re.M)
    command: list[str] = json.loads(line)
    nvidia = command.pop(0)
    assert nvidia.endswith("nvidia_entrypoint.sh")
    return command


class Pod:
    """A container of a pod's `spec` that runs, from `start` to `remove`. `flags` are more of tritonserver's."""

    def __init__(self, project: Path, spec: Spec, flags: Sequence[str] = ()) -> None:
        [self.container] = spec["containers"]
        self.spec = spec
        self.address = (
            f"127.{random.randrange(1, 255)}.{random.randrange(255)}.{random.randrange(2, 255)}"
        )
        self.ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        self._root = Path(tempfile.mkdtemp(prefix="pod-"))
        self._flags = [*self._fill(project), *flags]
        command = self.container.get("command") or entrypoint(project / "deploy/Dockerfile")
        self._command = [self._here(word) for word in (*command, *self.container.get("args", []))]
        wheel = environment.site_packages() / "pytriton/tritonserver"
        variables = environment.variables()
        self._variables = variables | {"PATH": f"{variables['PATH']}:{wheel / 'bin'}"}
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, port: str) -> str:
        """Return the address of a port by its name in the manifest: `http`, `grpc` or `metrics`."""
        scheme = "grpc" if port == "grpc" else "http"
        return f"{scheme}://{self.address}:{self.ports[port]}"

    def start(self) -> None:
        """Start the container. Its output is in `log`."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*self._command, *self._flags],
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._root,
                start_new_session=True,
            )

    @property
    def log(self) -> Path:
        return self._root / "log"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Process 1 of the container."""
        assert self._process, "start() comes first"
        return self._process

    async def passes(self, probe: Spec) -> bool:
        """Return whether a probe passes in its time."""
        timeout_s = probe.get("timeoutSeconds", 1)
        with suppress(OSError, asyncio.TimeoutError):
            if "exec" in probe:
                return await self.execute(probe["exec"]["command"], timeout_s) == 0
            get = probe["httpGet"]
            url = self.url(get["port"]) + get["path"]
            answer = await asyncio.to_thread(DIRECT.open, url, timeout=timeout_s)
            with answer:
                return bool(answer.status == 200)
        return False

    async def execute(self, command: Sequence[str], timeout_s: float) -> int:
        """Return the exit code of a command in the container, or raise TimeoutError if it takes longer."""
        words = [self._here(word) for word in command]
        if "container.health" in words[-1]:  # it asks the container's own address
            words[-1] += f" --url {self.url('http')}"
        run = await asyncio.create_subprocess_exec(
            *words, env=self._variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            return await asyncio.wait_for(run.wait(), timeout_s)
        finally:
            if run.returncode is None:
                run.kill()

    async def end(self, grace_s: float) -> bool:
        """Stop the container with SIGTERM, after `grace_s` with SIGKILL. Return whether that was needed."""
        self.process.terminate()
        try:
            await asyncio.wait_for(asyncio.to_thread(self.process.wait), grace_s)
        except asyncio.TimeoutError:
            self.process.kill()
            return True
        return False

    def remove(self) -> None:
        """Leave nothing of it behind."""
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for region in Path("/dev/shm").glob(f"{self._root.name}-*"):
            region.unlink(missing_ok=True)
        shutil.rmtree(self._root, ignore_errors=True)

    def _here(self, text: str) -> str:
        return PATHS.sub(f"{self._root}/", text).replace("127.0.0.1", self.address)

    def _fill(self, project: Path) -> list[str]:
        """Make the container's files. Return the flags that another machine, and other pods on it, need."""
        opt = self._root / "opt"
        (self._root / "tmp").mkdir()
        opt.mkdir()
        [wheel] = project.glob("vendor/*.whl")
        links = {"vendor": project / "vendor", "triton_ensemble.whl": wheel}
        for name, target in {**links, "samples": project / "samples"}.items():
            (opt / name).symlink_to(target)
        (opt / "serve.sh").write_text(self._here((project / "deploy/serve.sh").read_text()))
        server, backends = (
            environment.site_packages() / "pytriton/tritonserver",
            self._root / "backends",
        )
        names = environment.copy_backends(server, backends, Project.load(project).stand_ins)
        LocalRepository(project / "model_repository", self._root / "models", names)
        prefix = f"{self._root.name}-"
        return [
            f"--backend-directory={backends}",
            f"--cache-directory={server / 'caches'}",
            *(f"--backend-config={name},shm-region-prefix-name={prefix}" for name in names),
            *(f"--{api}-address={self.address}" for api in ("http", "grpc", "metrics")),
        ]
