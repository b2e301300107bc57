"""The rules of the check, each by its two examples, on a real Triton too, and the page that is made of them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from properties_support import reasons, serving

from triton_ensemble.check import examples
from triton_ensemble.check.rules import RULES, Rule

# Errors in what Triton 24.10 loads: it never answers, answers wrongly, dies of a request, or is too old.
LOADED = {
    "batching-rows",
    "calls-decoupled",
    "calls-itself",
    "calls-tensor",
    "calls-unknown",
    "calls-version",
    "ensemble-input-written",
    "hidden-shape",
    "instance-passive",
    "input-twice",
    "map-key-lost",
    "metrics",
    "output-twice",
    "outputs-asked",
    "python-async",
    "python-decoupled",
    "python-execute",
    "python-list",
    "python-name",
    "sequence-input",
    "sequence-state",
}
# What the local Triton can't be asked.
NOT_ASKED = {
    "fil-parameters": "its passing example has no trees",
    "config-made-up": "Triton makes one up",
    "python-version": "its Python decides",
    "repository-agents": "it dies of it",
    "metric-tags": "it dies of it",
    "folder-name": "it waits for ever",
    "model-file": "it waits for ever for a model.py",
    "model-format": "the stand-in for TensorRT loads any; tests/process/check/test_check.py asks others",
    "batch-strategy": "it is a path of the server's machine",
    "gpu-backend": "it is adapted to a machine without a GPU",
    "instance-gpus": "it is adapted to a machine without a GPU",
    "instance-gpu-count": "it is adapted to a machine without a GPU",
    "tensor-optional": "the stand-in for TensorRT loads it",
    "step-signature": "it depends on what the adapter asks of the step",
    "tensor-type-unsupported": "it depends on the model's code",
    "warmup-batch": "it dies of it, now and then",
    "warmup-unknown": "it dies of it, now and then",
}


def is_asked(rule: Rule) -> bool:
    """Return whether Triton alone decides, not the project around the repository."""
    files = examples.dedent_files(rule.fails)
    return rule.id not in NOT_ASKED and not any(path.startswith(".copier") for path in files)


def add(example: examples.Example, prefix: str, repository: Path, folder: Path) -> None:
    """Add an example's models under names of their own."""
    source = examples.write(example, folder / prefix)
    names = "|".join(path.name for path in source.iterdir())
    for path in source.iterdir():
        if path.is_dir():
            target = repository / f"{prefix}{path.name}"
            shutil.copytree(path, target, symlinks=True)
            config = target / "config.pbtxt"
            if config.exists():
                text = re.sub(rf'(name: ")({names})"', rf'\1{prefix}\2"', config.read_text())
                config.write_text(text)


@pytest.mark.slow
def test_triton_refuses_the_examples_that_fail_and_loads_those_that_pass(tmp_path: Path) -> None:
    """It loads those of a warning too, and of what Triton never answers."""
    repository = tmp_path / "r"
    repository.mkdir()
    asked = [rule for rule in RULES.values() if is_asked(rule)]
    for rule in asked:
        add(rule.fails, f"{rule.id}.fails.", repository, tmp_path)
        add(rule.passes, f"{rule.id}.passes.", repository, tmp_path)
    with serving(repository) as client:
        why = reasons(client)
    wrong = []
    for rule in asked:
        for kind in ("fails", "passes"):
            names = [path.name for path in repository.glob(f"{rule.id}.{kind}.*")]
            refused = [reason for name in names if (reason := why.get(name, "not listed"))]
            expected = kind == "fails" and rule.severity == "error" and rule.id not in LOADED
            if bool(refused) != expected:
                wrong.append((rule.id, kind, refused))
    assert wrong == []
