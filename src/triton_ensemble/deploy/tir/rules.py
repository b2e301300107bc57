"""A model endpoint on TIR"""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.check.repository import Repository, projects
from triton_ensemble.check.rule import warning
from triton_ensemble.check.rules.deployment import CACHED, find_line
from triton_ensemble.facts import catalog
from triton_ensemble.facts.config import Problem

TIR = "deploy/tir/endpoint.yml"
# Every field that a release of the catalog adds, and one of those before, as model_config.proto has them.
AFTER_24_02 = {
    "is_non_linear_format_io",
    *(f for row in catalog.releases().values() for f in row.adds),
}


@warning(
    "tir-image",
    of=projects,
    triton="`deploy/tir/endpoint.yml` names no image, and TIR's newest own one is 24.02: it lacks packages of steps, some backends and "
    "later fields of a config, and starts Triton without a cache",
    fails={**CACHED, TIR: "name: m\n"},
    passes={**CACHED, TIR: "name: m\nimage: namespace/m:1\n"},
)
def tir_image(repository: Repository) -> Iterator[Problem]:
    """TIR's own image has what the models need."""
    path = repository.root / TIR
    if not path.exists() or find_line(path, "^image:"):
        return
    instead = f"make a custom image, and name it as `image` in {TIR}"
    for model in repository.models.values():
        for field in model.fields.walk():
            if field.name in AFTER_24_02:
                what = f"{field.name} came after Triton 24.02, which is TIR's newest image"
                yield Problem(model.path, field.line, what, instead)
        if catalog.backends().get(model.config.backend, catalog.Backend()).image:
            what = f"TIR's own image lacks the backend {model.config.backend}"
            yield Problem(model.path, 1, what, instead)
        if model.config.response_cache.enable:
            yield Problem(model.path, 1, "TIR's own image caches no answers", instead)
    for step in repository.answers.get("steps") or []:
        if step.get("backend") == "python" and (packages := step.get("requirements")):
            what = f"TIR's own image lacks {', '.join(packages)}, which step {step['name']} needs"
            yield Problem(path, 1, what, instead)
