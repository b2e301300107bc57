"""Projects whose manifests are tested, and the choice of components that their owners make."""

from __future__ import annotations

from typing import Any

import yaml
from cluster.manifests import Manifest, built
from support import UNUSUAL, Project, step


def choose(project: Project, components: list[str], extra: str = "kubernetes") -> list[Manifest]:
    """Return the manifests of a project whose owner has chosen some components."""
    file = project / "deploy" / extra / "kustomization.yaml"
    chosen = yaml.safe_load(file.read_text())
    chosen["components"] = [f"components/{name}" for name in components]
    file.write_text(yaml.safe_dump(chosen))
    return built(file.parent)


LONG = "A.Name_of--" + "many_words-" * 8


def chain(*backends: str) -> dict[str, Any]:
    names = ["A", "B", "C"]
    steps = [step(f"s{i}", [names[i]], [names[i + 1]], b) for i, b in enumerate(backends)]
    return {"tensors": {n: "FP32[4]" for n in names[: len(backends) + 1]}, "steps": steps}


PROJECTS = {
    "default": {},
    "GPUs": {**chain("tensorrt", "python"), "gpu_count": 2},
    "one GPU": {**chain("pytorch", "onnxruntime"), "gpu_count": 1},
    "one model": {"ensemble": False, **chain("python")},
    "decoupled": UNUSUAL["decoupled"] | {"project_name": "7.streams"},
    "a long name": {**chain("python", "openvino"), "project_name": LONG},
    "vLLM": {**chain("vllm"), "gpu_count": 1},
}
