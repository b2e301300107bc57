"""Where each rule of the check points: the file and the line of what it finds in its example that fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from triton_ensemble.check import examples
from triton_ensemble.check.rules import OF_EXTRAS, RULES
from triton_ensemble.check.rules.engine import check

# The rules that find something at a line, in the model repository or in the project around it, where each field of a
# config has a line of its own.
RULES_AT = """\
m/config.pbtxt:1: version-folder backend backend-misspelt model-format vllm-batches aoti aoti-batch backend-gone apply-conflict config-made-up name
m/config.pbtxt:2: parse version model-file execution-environment cpu-only-inputs repository-agents vllm-batches max-batch-size tensor-type
m/config.pbtxt:3: version-listed
m/config.pbtxt:4: tensor-type-unsupported metrics
m/config.pbtxt:5: tensor-dims
m/config.pbtxt:6: label-file label-count tensor-name tensor-reshape tensor-format tensor-trt-only tensor-optional
m/config.pbtxt:7: input-twice
m/config.pbtxt:10: batching-ignored metric-tags warmup-skipped warmup-input
m/config.pbtxt:11: batch-strategy fil-parameters batch-io batching-priority instance-kind tensor-twice output-twice gpu-backend instance-gpu-count
m/config.pbtxt:12: batching-size batching-delay cache instance-gpus instance-passive instance-profile correlation-id-text
m/config.pbtxt:13: batching-order batching-override sequence-state batching-timeout
m/config.pbtxt:14: sequence-batching sequence-input sequence-state-unseen warmup-batch
m/config.pbtxt:15: sequence-control
m/config.pbtxt:16: warmup-unknown
m/config.pbtxt:22: warmup-data
e/config.pbtxt:1: ensemble-platform
e/config.pbtxt:7: ensemble-input-unused outputs-exposed
e/config.pbtxt:10: ensemble-field decoupled-merge
e/config.pbtxt:11: ensemble-output-unwritten outputs-apart
e/config.pbtxt:12: step-incomplete step-version step-input-missing too-new
e/config.pbtxt:14: ensemble-cycle step-model steps-together
e/config.pbtxt:15: step-batch-size
e/config.pbtxt:18: tensor-types-differ tensor-shape batching-rows
e/config.pbtxt:19: batching-lost optional-alone optional-chain
e/config.pbtxt:22: map-key-twice map-key-lost outputs-asked batching-rows
e/config.pbtxt:23: map-unknown-tensor
e/config.pbtxt:33: hidden-shape
e/config.pbtxt:39: tensor-written-twice ensemble-input-written tensor-unused
e/config.pbtxt:52: readers-differ
m/1/model.py:1: python-class python-import
m/1/model.py:4: python-execute
m/1/model.py:5: python-syntax python-arguments python-async python-return
m/1/model.py:6: python-version python-list python-name python-decoupled python-print calls-unknown calls-version calls-tensor calls-decoupled calls-itself
m/1/model.py:9: calls-initialize
m/1/steps/m.py:4: step-signature
a/config.pbtxt:1: calls-cycle
deploy/serve.sh:1: cache-off repository-writable
pipeline.yml:1: known-fault known-fault
pipeline.yml:2: pipeline-unreadable pipeline-changed
pipeline.yml:3: requirement-unlocked
deploy/compose.yaml:2: shared-memory
deploy/kubernetes/kustomization.yaml:3: placeholder components
models/m.py:5: model-script
samples/one.json:2: sample-inputs
m/2:1: broken-link
docs/config.pbtxt:1: config-missing
my model/config.pbtxt:1: folder-name
former/config.pbtxt:1: folder-of-no-step
"""
PLACES: dict[str, list[str]] = {}
for row in RULES_AT.splitlines():
    place, _, at_place = row.rpartition(": ")
    for name in at_place.split():
        PLACES.setdefault(name, []).append(place)

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
    assert PLACES.keys() == ours, "make the rules of RULES_AT here the same"


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
