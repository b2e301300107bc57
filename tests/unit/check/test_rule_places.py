"""Where each rule of the check points: the file and the line of what it finds in its example that fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from triton_ensemble.check import examples
from triton_ensemble.check.rules import OF_EXTRAS, RULES
from triton_ensemble.check.rules.engine import check

# In the model repository, or in the project around it, where each field of a config has a line of its own.
PLACES = {
    "parse": ["m/config.pbtxt:2"],
    "map-key-twice": ["e/config.pbtxt:22"],
    "map-key-lost": ["e/config.pbtxt:22"],
    "version": ["m/config.pbtxt:2"],
    "version-folder": ["m/config.pbtxt:1"],
    "version-listed": ["m/config.pbtxt:3"],
    "backend": ["m/config.pbtxt:1"],
    "backend-misspelt": ["m/config.pbtxt:1"],
    "model-file": ["m/config.pbtxt:2"],
    "model-format": ["m/config.pbtxt:1"],
    "execution-environment": ["m/config.pbtxt:2"],
    "batch-strategy": ["m/config.pbtxt:11"],
    "cpu-only-inputs": ["m/config.pbtxt:2"],
    "repository-agents": ["m/config.pbtxt:2"],
    "label-file": ["m/config.pbtxt:6"],
    "label-count": ["m/config.pbtxt:6"],
    "vllm-batches": ["m/config.pbtxt:1", "m/config.pbtxt:2"],
    "fil-parameters": ["m/config.pbtxt:11"],
    "max-batch-size": ["m/config.pbtxt:2"],
    "tensor-name": ["m/config.pbtxt:6"],
    "tensor-type": ["m/config.pbtxt:2"],
    "tensor-dims": ["m/config.pbtxt:5"],
    "tensor-reshape": ["m/config.pbtxt:6"],
    "tensor-format": ["m/config.pbtxt:6"],
    "tensor-trt-only": ["m/config.pbtxt:6"],
    "tensor-type-unsupported": ["m/config.pbtxt:4"],
    "batch-io": ["m/config.pbtxt:11"],
    "batching-ignored": ["m/config.pbtxt:10"],
    "batching-lost": ["e/config.pbtxt:19"],
    "batching-size": ["m/config.pbtxt:12"],
    "batching-priority": ["m/config.pbtxt:11"],
    "batching-order": ["m/config.pbtxt:13"],
    "batching-delay": ["m/config.pbtxt:12"],
    "batching-override": ["m/config.pbtxt:13"],
    "cache": ["m/config.pbtxt:12"],
    "metrics": ["m/config.pbtxt:4"],
    "metric-tags": ["m/config.pbtxt:10"],
    "instance-gpus": ["m/config.pbtxt:12"],
    "instance-kind": ["m/config.pbtxt:11"],
    "instance-passive": ["m/config.pbtxt:12"],
    "instance-profile": ["m/config.pbtxt:12"],
    "sequence-batching": ["m/config.pbtxt:14"],
    "sequence-control": ["m/config.pbtxt:15"],
    "sequence-input": ["m/config.pbtxt:14"],
    "sequence-state-unseen": ["m/config.pbtxt:14"],
    "sequence-state": ["m/config.pbtxt:13"],
    "warmup-skipped": ["m/config.pbtxt:10"],
    "warmup-batch": ["m/config.pbtxt:14"],
    "warmup-input": ["m/config.pbtxt:10"],
    "warmup-unknown": ["m/config.pbtxt:16"],
    "warmup-data": ["m/config.pbtxt:22"],
    "python-syntax": ["m/1/model.py:5"],
    "python-version": ["m/1/model.py:6"],
    "python-class": ["m/1/model.py:1"],
    "python-import": ["m/1/model.py:1"],
    "python-arguments": ["m/1/model.py:5"],
    "python-execute": ["m/1/model.py:4"],
    "python-async": ["m/1/model.py:5"],
    "python-list": ["m/1/model.py:6"],
    "python-name": ["m/1/model.py:6"],
    "python-decoupled": ["m/1/model.py:6"],
    "python-return": ["m/1/model.py:5"],
    "python-print": ["m/1/model.py:6"],
    "step-signature": ["m/1/steps/m.py:4"],
    "calls-cycle": ["a/config.pbtxt:1"],
    "ensemble-platform": ["e/config.pbtxt:1"],
    "ensemble-field": ["e/config.pbtxt:10"],
    "step-incomplete": ["e/config.pbtxt:12"],
    "tensor-written-twice": ["e/config.pbtxt:39"],
    "ensemble-input-written": ["e/config.pbtxt:39"],
    "ensemble-input-unused": ["e/config.pbtxt:7"],
    "ensemble-output-unwritten": ["e/config.pbtxt:11"],
    "tensor-unused": ["e/config.pbtxt:39"],
    "outputs-asked": ["e/config.pbtxt:22"],
    "outputs-exposed": ["e/config.pbtxt:7"],
    "outputs-apart": ["e/config.pbtxt:11"],
    "optional-alone": ["e/config.pbtxt:19"],
    "ensemble-cycle": ["e/config.pbtxt:14"],
    "step-model": ["e/config.pbtxt:14"],
    "step-version": ["e/config.pbtxt:12"],
    "step-batch-size": ["e/config.pbtxt:15"],
    "map-unknown-tensor": ["e/config.pbtxt:23"],
    "step-input-missing": ["e/config.pbtxt:12"],
    "optional-chain": ["e/config.pbtxt:19"],
    "tensor-types-differ": ["e/config.pbtxt:18"],
    "tensor-shape": ["e/config.pbtxt:18"],
    "readers-differ": ["e/config.pbtxt:52"],
    "decoupled-merge": ["e/config.pbtxt:10"],
    "hidden-shape": ["e/config.pbtxt:33"],
    "input-twice": ["m/config.pbtxt:7"],
    "tensor-twice": ["m/config.pbtxt:11"],
    "output-twice": ["m/config.pbtxt:11"],
    "too-new": ["e/config.pbtxt:12"],
    "steps-together": ["e/config.pbtxt:14"],
    "correlation-id-text": ["m/config.pbtxt:12"],
    "backend-gone": ["m/config.pbtxt:1"],
    "gpu-backend": ["m/config.pbtxt:11"],
    "instance-gpu-count": ["m/config.pbtxt:11"],
    "tensor-optional": ["m/config.pbtxt:6"],
    "batching-timeout": ["m/config.pbtxt:13"],
    "batching-rows": ["e/config.pbtxt:18", "e/config.pbtxt:22"],
    "calls-unknown": ["m/1/model.py:6"],
    "calls-version": ["m/1/model.py:6"],
    "calls-tensor": ["m/1/model.py:6"],
    "calls-decoupled": ["m/1/model.py:6"],
    "calls-itself": ["m/1/model.py:6"],
    "calls-initialize": ["m/1/model.py:9"],
    "cache-off": ["deploy/serve.sh:1"],
    "known-fault": ["pipeline.yml:1", "pipeline.yml:1"],
    "shared-memory": ["deploy/compose.yaml:2"],
    "repository-writable": ["deploy/serve.sh:1"],
    "placeholder": ["deploy/kubernetes/kustomization.yaml:3"],
    "components": ["deploy/kubernetes/kustomization.yaml:3"],
    "pipeline-unreadable": ["pipeline.yml:2"],
    "pipeline-changed": ["pipeline.yml:2"],
    "apply-conflict": ["m/config.pbtxt:1"],
    "requirement-unlocked": ["pipeline.yml:3"],
    "model-script": ["models/m.py:5"],
    "sample-inputs": ["samples/one.json:2"],
    "broken-link": ["m/2:1"],
    "config-missing": ["docs/config.pbtxt:1"],
    "config-made-up": ["m/config.pbtxt:1"],
    "name": ["m/config.pbtxt:1"],
    "folder-name": ["my model/config.pbtxt:1"],
    "folder-of-no-step": ["former/config.pbtxt:1"],
}

# Other faults that these rules find, each in the line that ends with HERE.
HERE = " # here"
STATE = """\
backend: "python"
max_batch_size: 4
input { name: "X" data_type: TYPE_FP32 dims: [4] }
output { name: "Y" data_type: TYPE_FP32 dims: [4] }
sequence_batching {
  state {
    input_name: "S"
    output_name: "T"
    data_type: TYPE_FP32
    dims: [4]
    initial_state {
      name: "first"
      data_type: TYPE_FP32
      dims: [4]
      data_file: "zeros"
    }
  }
}
"""
INITIAL = 'name: "first"\n      data_type: TYPE_FP32\n      dims: [4]\n      data_file: "zeros"'
AGAIN = """\
  state {
    input_name: "S" # here
    output_name: "U"
    data_type: TYPE_FP32
    dims: [4]
    initial_state { name: "first" data_type: TYPE_FP32 dims: [4] zero_data: true }
  }
}
"""
TREES = """\
backend: "fil"
max_batch_size: 8
input {
  name: "input__0"
  data_type: TYPE_FP32
  dims: [4]
}
output { name: "output__0" data_type: TYPE_FP32 dims: [1] }
parameters { key: "model_type" value { string_value: "xgboost_json" } }
parameters { key: "is_classifier" value { string_value: "false" } }
"""
AGAIN_INITIAL = f"    initial_state {{ # here\n      {INITIAL}\n    }}\n  }}\n}}\n"
WARM = """\
backend: "python"
input { name: "X" data_type: TYPE_STRING dims: [2] }
output { name: "Y" data_type: TYPE_FP32 dims: [4] }
model_warmup {
  name: "w"
  batch_size: 1
  inputs {
    key: "X"
    value {
      data_type: TYPE_STRING
      dims: [2]
      input_data_file: "short" # here
    }
  }
}
"""
FAULTS = [
    ("vllm-batches", f'backend: "vllm"\nmodel_transaction_policy {{{HERE}\n  decoupled: false\n}}\n'),
    ("sequence-state", STATE.removesuffix("  }\n}\n") + AGAIN_INITIAL),
    ("warmup-data", WARM),
    ("sequence-state", STATE.replace(INITIAL, INITIAL.replace("FP32", f"INT32{HERE}"))),
    ("sequence-state", STATE.replace(INITIAL, INITIAL.replace("[4]", f"[4, 4]{HERE}"))),
    ("sequence-state", STATE.replace(INITIAL, INITIAL.replace("[4]", f"[-1]{HERE}"))),
    ("sequence-state", STATE.replace(INITIAL, INITIAL.replace("[4]", f"[5]{HERE}"))),
    ("sequence-state", STATE.replace('"zeros"', f'"short"{HERE}')),
    ("sequence-state", STATE.removesuffix("}\n") + AGAIN),
    ("backend-misspelt", f'max_batch_size: 4\nbackend: "${{name}}"{HERE}\n'),
    ("backend-misspelt", f'max_batch_size: 4\nbackend: "pyton"{HERE}\n'),
    ("fil-parameters", TREES.replace('json" } }', f'x" }} }}{HERE}')),
    ("fil-parameters", TREES.replace('"input__0"', f'"X"{HERE}')),
    ("fil-parameters", TREES.replace('json" } }', f'json" }} }}{HERE}').replace("false", "true")),
    ("fil-parameters", TREES.replace("size: 8", f"size: 0{HERE}")),
    ("batching-size", f"{examples.BATCHES}dynamic_batching {{\n  preferred_batch_size: 0{HERE}\n}}\n"),
]  # fmt: skip


def write_spread(rule: str, folder: Path) -> Path:
    """Write the example that fails, with a line for each field of its configs, and return the repository."""
    repository = examples.write(RULES[rule].fails, folder)
    for config in repository.glob("*/config.pbtxt"):
        config.write_text(re.sub(r" (?=[a-z_0-9]+(:| [{]))", "\n", config.read_text()))
    return repository


def test_each_rule_has_its_places() -> None:
    elsewhere = {topic.__name__ for topic in OF_EXTRAS}
    ours = {name for name, rule in RULES.items() if rule.find.__module__ not in elsewhere}
    assert PLACES.keys() == ours, "make the rows of PLACES here the same"


@pytest.mark.parametrize("rule", PLACES)
def test_a_finding_is_where_the_mistake_is(rule: str, tmp_path: Path) -> None:
    repository = write_spread(rule, tmp_path)
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


@pytest.mark.parametrize(("rule", "config"), FAULTS)
def test_a_fault_of_another_kind_is_where_it_is(rule: str, config: str, tmp_path: Path) -> None:
    files = {"m": config, "m/initial_state/zeros": "0" * 100}
    files |= {"m/initial_state/short": "0", "m/warmup/short": "0"}
    found = [each for each in check(examples.write(files, tmp_path)) if each.rule == rule]
    lines = [i for i, line in enumerate(config.splitlines(), 1) if line.endswith(HERE)]
    assert [each.line for each in found] == lines
