"""The content of the image of a Ray node, as folders: for NVIDIA's Python API, as scripts/bindings.py builds it."""

from __future__ import annotations

import re
from pathlib import Path

from cluster.pods import Pod

from triton_ensemble.serve.local import environment


def opt(project: Path, pod: Pod) -> Path:
    """Return a folder that stands for /opt, filled as deploy/ray/Dockerfile does."""
    folder = pod.log.parent / "opt"
    for name in ("src", "gateway", "deploy"):
        (folder / name).symlink_to(project / name)
    return folder


class Image:
    """A folder `opt` that stands for /opt. Triton ends after `exit_s`."""

    def __init__(self, project: Path, exit_s: int = 30) -> None:
        self._pod = Pod(project, {"containers": [{"ports": []}]})
        root = self._pod.log.parent
        self.opt = opt(project, self._pod)
        server = environment.site_packages() / "pytriton/tritonserver"
        own = {"backend-directory": root / "backends", "cache-directory": server / "caches"}
        flags = "".join(f"  --{name}={value} \\\n" for name, value in own.items())
        start = self.opt / "serve.sh"
        text = re.sub("(?<=exit-timeout-secs=)[0-9]+", str(exit_s), start.read_text())
        start.write_text(text.replace('  "$@"', f'{flags}  "$@"'))
        there = environment.variables()
        self.variables = {name: there[name] for name in ("LD_LIBRARY_PATH", "PATH")}
        self.variables["MODEL_REPOSITORY"] = str(root / "models")

    def remove(self) -> None:
        """Leave nothing of it behind."""
        self._pod.remove()
