"""The content of the image of a Ray node, as a folder, and in PATH a Triton as NVIDIA's image has it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cluster.pods import Pod
from rayserve.in_process import opt

from triton_ensemble.serve.local import environment

# Triton 24.10 does not know a flag of later releases.
KNOWN = 'for word; do shift; case $word in --http-max-input-size=*) ;; *) set -- "$@" "$word" ;; esac; done'


class Image(NamedTuple):
    """The folder that stands for /opt, and the variables of the image."""

    opt: Path
    variables: dict[str, str]


@contextmanager
def image(project: Path) -> Iterator[Image]:
    """Fill the folders, whose models are those of the project."""
    pod = Pod(project, {"containers": [{"ports": []}]})
    root = pod.log.parent
    try:
        _tritonserver(root / "bin", root / "backends")
        path = [str(root / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        models = str(root / "models")
        yield Image(opt(project, pod), {"PATH": os.pathsep.join(path), "MODEL_REPOSITORY": models})
    finally:
        pod.remove()


def _tritonserver(folder: Path, backends: Path) -> None:
    """Write NVIDIA's command, which finds its backends and libraries by itself."""
    wheel = environment.site_packages() / "pytriton/tritonserver"
    libraries = environment.variables()["LD_LIBRARY_PATH"]
    folder.mkdir()
    command = folder / "tritonserver"
    command.write_text(
        f'#!/bin/sh\ntest -z "$PYTHONPATH" || exit 3\nexport LD_LIBRARY_PATH={libraries}\n{KNOWN}\n'
        f'exec {wheel}/bin/tritonserver "$@" --backend-directory={backends} --cache-directory={wheel}/caches\n'
    )
    command.chmod(0o755)
