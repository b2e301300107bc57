"""Where each rule of the check points: the file and the line of what it finds in its example that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_ensemble.check import examples
from triton_ensemble.check.engine import check
from triton_ensemble.check.rules import RULES

# In the model repository, or in the project around it.
PLACES = {
    "parse": ["m/config.pbtxt:2"],
    "map-key-twice": ["e/config.pbtxt:9"],
    "map-key-lost": ["e/config.pbtxt:9"],
    "version": ["m/config.pbtxt:2"],
    "version-folder": ["m/config.pbtxt:1"],
    "version-listed": ["m/config.pbtxt:2"],
    "backend": ["m/config.pbtxt:1"],
    "backend-misspelt": ["m/config.pbtxt:1"],
    "model-file": ["m/config.pbtxt:2"],
    "execution-environment": ["m/config.pbtxt:2"],
    "cpu-only-inputs": ["m/config.pbtxt:2"],
    "repository-agents": ["m/config.pbtxt:2"],
    "label-file": ["m/config.pbtxt:2"],
    "label-count": ["m/config.pbtxt:2"],
    "vllm-batches": ["m/config.pbtxt:1", "m/config.pbtxt:2"],
    "max-batch-size": ["m/config.pbtxt:2"],
    "tensor-name": ["m/config.pbtxt:3"],
    "tensor-type": ["m/config.pbtxt:2"],
    "tensor-dims": ["m/config.pbtxt:2"],
    "tensor-reshape": ["m/config.pbtxt:2"],
    "tensor-format": ["m/config.pbtxt:2"],
    "tensor-trt-only": ["m/config.pbtxt:2"],
    "tensor-type-unsupported": ["m/config.pbtxt:2"],
    "batch-io": ["m/config.pbtxt:5"],
    "batching-ignored": ["m/config.pbtxt:4"],
    "batching-lost": ["e/config.pbtxt:9"],
    "batching-size": ["m/config.pbtxt:5"],
    "batching-priority": ["m/config.pbtxt:5"],
    "batching-order": ["m/config.pbtxt:6"],
    "cache": ["m/config.pbtxt:6"],
    "metrics": ["m/config.pbtxt:3"],
    "metric-tags": ["m/config.pbtxt:4"],
    "instance-gpus": ["m/config.pbtxt:4"],
    "instance-kind": ["m/config.pbtxt:4"],
    "instance-passive": ["m/config.pbtxt:4"],
    "instance-profile": ["m/config.pbtxt:4"],
    "sequence-batching": ["m/config.pbtxt:6"],
    "sequence-control": ["m/config.pbtxt:6"],
    "sequence-input": ["m/config.pbtxt:6"],
    "sequence-state-unseen": ["m/config.pbtxt:6"],
    "sequence-state": ["m/config.pbtxt:6"],
    "warmup-skipped": ["m/config.pbtxt:4"],
    "warmup-batch": ["m/config.pbtxt:6"],
    "warmup-input": ["m/config.pbtxt:4"],
    "warmup-unknown": ["m/config.pbtxt:7"],
    "warmup-data": ["m/config.pbtxt:9"],
    "python-syntax": ["m/1/model.py:5"],
    "python-class": ["m/1/model.py:1"],
    "python-arguments": ["m/1/model.py:5"],
    "python-execute": ["m/1/model.py:4"],
    "python-async": ["m/1/model.py:5"],
    "python-return": ["m/1/model.py:5"],
    "python-print": ["m/1/model.py:6"],
    "step-signature": ["m/1/steps/m.py:4"],
    "calls-cycle": ["a/config.pbtxt:1"],
    "ensemble-platform": ["e/config.pbtxt:1"],
    "ensemble-field": ["e/config.pbtxt:4"],
    "step-incomplete": ["e/config.pbtxt:5"],
    "tensor-written-twice": ["e/config.pbtxt:15"],
    "ensemble-input-written": ["e/config.pbtxt:15"],
    "ensemble-input-unused": ["e/config.pbtxt:3"],
    "ensemble-output-unwritten": ["e/config.pbtxt:4"],
    "tensor-unused": ["e/config.pbtxt:15"],
    "outputs-exposed": ["e/config.pbtxt:3"],
    "outputs-apart": ["e/config.pbtxt:4"],
    "optional-alone": ["e/config.pbtxt:8"],
    "ensemble-cycle": ["e/config.pbtxt:6"],
    "step-model": ["e/config.pbtxt:6"],
    "step-version": ["e/config.pbtxt:5"],
    "step-batch-size": ["e/config.pbtxt:7"],
    "map-unknown-tensor": ["e/config.pbtxt:9"],
    "step-input-missing": ["e/config.pbtxt:5"],
    "optional-chain": ["e/config.pbtxt:8"],
    "tensor-types-differ": ["e/config.pbtxt:8"],
    "tensor-shape": ["e/config.pbtxt:8"],
    "readers-differ": ["e/config.pbtxt:21"],
    "decoupled-merge": ["e/config.pbtxt:4"],
    "hidden-shape": ["e/config.pbtxt:14"],
    "input-twice": ["m/config.pbtxt:3"],
    "tensor-twice": ["m/config.pbtxt:4"],
    "output-twice": ["m/config.pbtxt:4"],
    "too-new": ["e/config.pbtxt:5"],
    "steps-together": ["e/config.pbtxt:5"],
    "correlation-id-text": ["m/config.pbtxt:5"],
    "backend-gone": ["m/config.pbtxt:1"],
    "instance-gpu-count": ["m/config.pbtxt:4"],
    "cache-off": ["deploy/serve.sh:1"],
    "image-release": ["deploy/Dockerfile:1"],
    "shared-memory": ["deploy/compose.yaml:2"],
    "repository-writable": ["deploy/serve.sh:1"],
    "tir-image": ["m/config.pbtxt:1"],
    "pipeline-changed": ["pipeline.yml:2"],
    "requirement-unlocked": ["pipeline.yml:3"],
    "sample-inputs": ["samples/one.json:2"],
    "broken-link": ["m/2:1"],
    "config-missing": ["docs/config.pbtxt:1"],
    "config-made-up": ["m/config.pbtxt:1"],
    "name": ["m/config.pbtxt:1"],
    "folder-name": ["my model/config.pbtxt:1"],
    "folder-of-no-step": ["former/config.pbtxt:1"],
}


def test_each_rule_has_its_places() -> None:
    assert PLACES.keys() == RULES.keys()


@pytest.mark.parametrize("rule", PLACES)
def test_a_finding_is_where_the_mistake_is(rule: str, tmp_path: Path) -> None:
    repository = examples.write(RULES[rule].fails, tmp_path)
    found = check(repository)
    folders = [
        repository if finding.file.is_relative_to(repository) else tmp_path for finding in found
    ]
    places = [
        f"{finding.file.relative_to(folder)}:{finding.line}"
        for finding, folder in zip(found, folders, strict=True)
    ]
    assert places == PLACES[rule]
    for finding in found:
        assert finding.severity == RULES[rule].severity
        for words in (finding.what, finding.instead):
            assert words.strip() == words != ""
            assert "None" not in words.split()
