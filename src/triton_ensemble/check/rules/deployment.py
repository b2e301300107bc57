"""The project's deployment"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton_ensemble.check.examples import A, Files
from triton_ensemble.check.repository import Repository, projects
from triton_ensemble.check.rule import warning
from triton_ensemble.facts import catalog
from triton_ensemble.facts.answers import FILE, NO_YAML, load_yaml
from triton_ensemble.facts.config import Problem
from triton_ensemble.facts.reading import read_bytes, read_text

KUBERNETES = "deploy/kubernetes/kustomization.yaml"
CHOSEN = "resources: [base]\ncomponents:\n  - components/{}\n"
# What a component needs beside it.
NEEDS = {
    "kserve/canary": "knative",
    "kserve/concurrency": "knative",
    "kserve/keda": "monitoring",
    "kubernetes/gateway-route": "gateway",
    "kubernetes/hpa": "monitoring",
    "kubernetes/keda": "monitoring",
}
EXCLUDES = {
    "kserve/hpa": ("concurrency", "keda"),
    "kserve/keda": ("concurrency",),
    "kserve/knative": ("hpa", "keda", "monitoring", "openshift", "raw-deployment"),
    "kserve/openshift": ("raw-deployment",),
    "kubernetes/hpa": ("keda",),
    "kubernetes/model-volume": ("image-volume", "s3"),
    "kubernetes/s3": ("image-volume",),
}
# The list of kustomization.yaml that has an entry for a component, and the end of that entry's name.
ENTRIES = {
    "kubernetes/gateway": ("images", "-gateway"),
    "kubernetes/image-volume": ("images", "-models"),
    "kubernetes/s3": ("configMapGenerator", "-s3"),
}
IMAGES = "images:\n  - name: m\n    newName: {}/m\n"
PROJECT: Files = {FILE: "steps: []\n", "model_repository/m/config.pbtxt": A}
CACHED: Files = {
    **PROJECT,
    "model_repository/m/config.pbtxt": f"{A}response_cache {{ enable: true }}\n",
}
COMPOSE = "services:\n  triton:\n    image: server\n"
MOUNTED = f"{COMPOSE}    shm_size: 1g\n    volumes: [../model_repository:/models:ro]\n"
POLLING: Files = {
    **PROJECT,
    "deploy/serve.sh": "exec tritonserver --model-control-mode=poll\n",
    "deploy/compose.yaml": MOUNTED,
}


def _write_caller(release: str) -> Files:
    answers = f'triton_release: "{release}"\nsteps: [{{name: m, calls: [n]}}]\n'
    return {**PROJECT, FILE: answers, "pipeline.yml": answers}


@warning(
    "cache-off",
    of=projects,
    triton="a config asks for a cache, and `deploy/serve.sh` starts Triton without one: it caches "
    "nothing, and says nothing",
    fails={**CACHED, "deploy/serve.sh": "exec tritonserver\n"},
    passes={**CACHED, "deploy/serve.sh": "exec tritonserver --cache-config=local,size=67108864\n"},
)
def cache_off(repository: Repository) -> Iterator[Problem]:
    """If a model has a cache, Triton is started with one."""
    serve = repository.root / "deploy" / "serve.sh"
    cached = [each.name for each in repository.models.values() if each.config.response_cache.enable]
    if cached and serve.exists() and not find_line(serve, r"--cache-(config|directory)\b"):
        what = f"{cached[0]} caches its answers, and Triton is started without a cache"
        yield Problem(serve, 1, what, "add `--cache-config=local,size=67108864`")


@warning(
    "known-fault",
    of=projects,
    triton="the release has [a known fault](#known-faults-of-releases) that affects every project, or a step of this "
    "one; if several faults have one cause, the worst is named",
    fails=_write_caller("26.05"),
    passes=_write_caller("26.11"),
)
def known_fault(repository: Repository) -> Iterator[Problem]:
    """The release is free of known faults that affect the project."""
    path = (repository.project or repository.root) / "pipeline.yml"
    line, release = find_line(path, "^triton_release:"), repository.release
    table, told = catalog.table("faults"), set()
    newest = max(row["before"] for row in table["faults"])
    steps = {step["name"]: json.dumps(step) for step in repository.answers["steps"]}
    for row in table["faults"] if line else ():
        needs = row.get("needs")
        pattern, says = table["needs"].get(needs, ("", ""))
        have = [name for name, text in steps.items() if re.search(pattern, text)]
        if have and needs not in told and row.get("since", "") <= release < row["before"]:
            told.add(needs)
            where = f"step {have[0]} {says}, and " if needs else ""
            what = f"{where}Triton {release} {row['fault']} ({row['thread']})"
            yield Problem(path, line, what, f'write `triton_release: "{newest}"` or later')


@warning(
    "shared-memory",
    of=projects,
    triton="`deploy/compose.yaml` gives Triton no `shm_size`, and Docker 64 MiB; Python models then fail "
    "with `No space in shared memory` or die",
    fails={**PROJECT, "deploy/compose.yaml": COMPOSE},
    passes={**PROJECT, "deploy/compose.yaml": f"{COMPOSE}    shm_size: 1g\n"},
)
def shared_memory(repository: Repository) -> Iterator[Problem]:
    """Python models have the shared memory that they need."""
    path = repository.root / "deploy" / "compose.yaml"
    python = [each.name for each in repository.models.values() if each.config.backend == "python"]
    service = _find_triton_service(path)
    if python and service and not {"shm_size", "ipc"} & service.keys():
        what = f"Triton and the Python model {python[0]} share 64 MiB of memory at most"
        yield Problem(path, find_line(path, r"^  triton:"), what, "write `shm_size`, as 1g")


@warning(
    "repository-writable",
    of=projects,
    triton="`deploy/serve.sh` lets Triton load models while it runs, from a folder that a compose file "
    "lets it write: who can write there runs code",
    fails={**POLLING, "deploy/compose.yaml": MOUNTED.replace(":ro", "")},
    passes=POLLING,
)
def repository_writable(repository: Repository) -> Iterator[Problem]:
    """A server that loads models while it runs can't write to the repository."""
    deploy = repository.root / "deploy"
    serve = deploy / "serve.sh"
    if not (line := find_line(serve, r"--model-control-mode[= ](explicit|poll)")):
        return
    for path in sorted(deploy.glob("compose*.yaml")):
        for volume in (_find_triton_service(path) or {}).get("volumes", []):
            if isinstance(volume, str) and re.search(r":/models(:(?!.*\bro\b).*)?$", volume):
                what = f"loads models while it runs, from a folder that {path.name} lets it write"
                instead = f"mount it read-only, {volume.split(':')[0]}:/models:ro"
                yield Problem(serve, line, what, instead)


@warning(
    "placeholder",
    of=projects,
    triton="`Failed to pull image`: no pod starts, because registry.example.com does not exist",
    fails={**PROJECT, KUBERNETES: IMAGES.format("registry.example.com")},
    passes={**PROJECT, KUBERNETES: IMAGES.format("ghcr.io")},
)
def placeholder(repository: Repository) -> Iterator[Problem]:
    """The images in `deploy/` are in a registry that exists."""
    for path in sorted(repository.root.glob("deploy/*/kustomization.yaml")):
        if line := find_line(path, r"^\s*newName: registry\.example\.com/"):
            what = "there is no registry at registry.example.com"
            yield Problem(path, line, what, "write the name of the image that you pushed")


@warning(
    "components",
    of=projects,
    triton="`kubectl` builds most such manifests without a word, and what they describe does not work: a "
    "route without a server, a number that nothing measures, pods without an image",
    fails={**PROJECT, KUBERNETES: CHOSEN.format("gateway-route")},
    passes={**PROJECT, KUBERNETES: CHOSEN.format("routes")},
)
def components(repository: Repository) -> Iterator[Problem]:
    """The components of each `kustomization.yaml` in `deploy/` work together."""
    paths = sorted(repository.root.glob("deploy/*/kustomization.yaml"))
    files = {path: _kustomization(path) for path in paths}
    for path, (chosen, entries) in files.items():
        for name, line in chosen.items():
            extra, own = name.split("/")
            needed = NEEDS.get(name)
            if needed and not any(f"{extra}/{needed}" in others for others, _ in files.values()):
                yield Problem(path, line, f"{own} needs {needed}", f"add components/{needed}")
            for other in EXCLUDES.get(name, ()):
                if f"{extra}/{other}" in chosen:
                    yield Problem(path, line, f"{own} and {other} exclude each other", "remove one")
            key, end = ENTRIES.get(name, ("", ""))
            if not any(entry.startswith(key) and entry.endswith(end) for entry in ("", *entries)):
                what = f"{own} uses the entry NAME{end} of {key}, which is missing"
                yield Problem(path, line, what, f"add it under `{key}:`")
            serve = path.with_name("serve.yaml")
            if name == "ray/availability" and (at := find_line(serve, r"^\s*min_replicas: [01]\b")):
                what = "availability lets nobody drain the node of a single replica"
                yield Problem(serve, at, what, "write min_replicas: 2")


def _kustomization(path: Path) -> tuple[dict[str, int], set[str]]:
    """Return the line of each component that a kustomization.yaml lists, and its entries, as `images NAME`."""
    try:
        content = load_yaml(read_bytes(path))
        listed = [os.path.normpath(path.parent / p) for p in content.get("components") or ()]
        keys = ("images", "configMapGenerator")
        entries = {f"{key} {e['name']}" for key in keys for e in content.get(key) or ()}
    except (OSError, *NO_YAML, AttributeError, KeyError, TypeError):
        return {}, set()  # kubectl says what is wrong
    found = [match for p in listed if (match := re.search(r"(\w+/)components/([\w-]+)$", p))]
    lines = {m[1] + m[2]: find_line(path, rf"^[^#]*components/{m[2]}(?![\w-])") for m in found}
    return lines, entries


def _find_triton_service(path: Path) -> dict[str, Any] | None:
    """Return the service `triton` of a compose file, or None if there is none."""
    try:
        service = load_yaml(read_bytes(path))["services"]["triton"]
    except (OSError, *NO_YAML, KeyError, TypeError):
        return None
    return service if isinstance(service, dict) else None


def find_line(path: Path, pattern: str) -> int:
    """Return the number of the first line that has the pattern, from 1 on, or 0 without one."""
    try:
        lines = read_text(path).splitlines()
    except OSError:
        return 0
    return next((i for i, line in enumerate(lines, 1) if re.search(pattern, line)), 0)
