"""What a project's deploy/ does with the repository: the image's release, caches, shared memory, rights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from triton_ensemble.check.findings import Finding
from triton_ensemble.check.models import Model

SAFE = "25.07"  # the first without CVE-2025-23319 and its kin


def deployment(deploy: Path, models: Mapping[str, Model]) -> Iterator[Finding]:
    if not deploy.is_dir():
        return
    configs = {name: model.config for name, model in models.items() if model.config is not None}
    cached = [name for name, config in configs.items() if config.response_cache.enable]
    python = [name for name, config in configs.items() if config.backend == "python"]
    yield from image(deploy / "Dockerfile")
    serve = deploy / "serve.sh"
    if cached and serve.exists() and not line_of(serve, r"--cache-(config|directory)\b"):
        what = f"{cached[0]} caches its answers, and Triton is started without a cache"
        yield Finding(serve, 1, "cache-off", what, "add `--cache-config=local,size=67108864`")
    if python:
        yield from memory(deploy / "compose.yaml", python[0])
    yield from rights(deploy)


def image(path: Path) -> Iterator[Finding]:
    pattern = r"ARG TRITON_IMAGE=\S*:(\d\d\.\d\d)-"
    if (line := line_of(path, pattern)) and (
        release := re.findall(pattern, path.read_text(errors="replace"))[0]
    ) < SAFE:
        what = f"Triton {release} lets who reaches its ports run code (CVE-2025-23319)"
        instead = f'write `triton_release: "{SAFE}"` or later in pipeline.yml'
        yield Finding(path, line, "image-release", what, instead)


def memory(path: Path, model: str) -> Iterator[Finding]:
    service = triton(path)
    if service and not {"shm_size", "ipc"} & service.keys():
        what = f"Triton and the Python model {model} share 64 MiB of memory at most"
        line = line_of(path, r"^  triton:")
        yield Finding(path, line, "shared-memory", what, "write `shm_size`, as 1g")


def rights(deploy: Path) -> Iterator[Finding]:
    """Who may load models and write to the repository runs code in the server."""
    serve = deploy / "serve.sh"
    if not (line := line_of(serve, r"--model-control-mode[= ](explicit|poll)")):
        return
    for path in sorted(deploy.glob("compose*.yaml")):
        for volume in (triton(path) or {}).get("volumes", []):
            if isinstance(volume, str) and re.search(r":/models(:(?!.*\bro\b).*)?$", volume):
                what = f"loads models while it runs, from a folder that {path.name} lets it write"
                instead = f"mount it read-only, {volume.split(':')[0]}:/models:ro"
                yield Finding(serve, line, "repository-writable", what, instead)


def triton(path: Path) -> dict[str, Any] | None:
    """The service of a compose file; none where it is no compose file that has one."""
    try:
        found = yaml.safe_load(path.read_bytes())["services"]["triton"]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def line_of(path: Path, pattern: str) -> int:
    """The first line of a file that has the pattern; 0: none."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return 0
    return next((i for i, line in enumerate(lines, 1) if re.search(pattern, line)), 0)
