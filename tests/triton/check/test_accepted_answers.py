"""Random answers: the repository of those that the template accepts passes the check, and a real Triton serves it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import yaml
from drawing import SEED
from gatekeeper import DEFAULTS
from google.protobuf import text_format  # type: ignore[import-untyped]
from grammar import has_config, some_answers
from pipelines import Answers
from served_shapes import MODEL, Config, Files
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]
from tritonclient.utils import triton_to_np_dtype  # type: ignore[import-untyped]
from verdicts import Judge, errors

from triton_ensemble.check.pipeline.problems import list_problems
from triton_ensemble.compile.render import render_configs
from triton_ensemble.compile.rules import Rules

# More, and others: ANSWERS=500 SEED=7 python -m pytest -n 0 -s -m slow tests/triton/check/test_accepted_answers.py
ANSWERS = int(os.environ.get("ANSWERS", 60))
# An output has the sizes that the template gives a placeholder: those that its readers declare, or 1.
CODE = MODEL.replace(
    b"size if dim < 0 else dim for dim in self.own_dims(output)",
    b'abs(int(dim)) for dim in SIZES.get(output["name"], output["dims"])',
)
MOST_CANDIDATES = 10_000  # a million take 0.7 GB in each instance
MOST_WARMUPS = 100  # two billion take days
LONGEST_DELAY_US = (
    100_000  # a lone request waits that long for others: 36 minutes are what the answers asked for
)
CPU = model_config_pb2.ModelInstanceGroup.KIND_CPU


def answer(rules: Rules, given: Answers) -> Answers | None:
    """Return all answers, or none where the template refuses them."""
    given = DEFAULTS | given
    return None if any(list_problems(given, rules)) else rules.answer(given)


def serve_here(config: Config) -> None:
    """Change what needs the model file, a GPU, a file of packages or much memory: Python stands for all backends."""
    if config.platform != "ensemble":
        config.backend, config.platform, config.runtime = "python", "", ""
        config.ClearField("default_model_filename")
        config.ClearField("cc_model_filenames")
    config.parameters.pop("EXECUTION_ENV_PATH", None)
    if (oldest := config.sequence_batching.oldest).max_candidate_sequences > MOST_CANDIDATES:
        oldest.max_candidate_sequences = MOST_CANDIDATES
    if (batching := config.dynamic_batching).max_queue_delay_microseconds > LONGEST_DELAY_US:
        batching.max_queue_delay_microseconds = LONGEST_DELAY_US
    for warmup in config.model_warmup:
        warmup.count = min(warmup.count, MOST_WARMUPS)
    for group in config.instance_group:
        group.kind = CPU if group.kind == group.KIND_GPU else group.kind
        for field in ("gpus", "secondary_devices", "profile"):
            group.ClearField(field)


def count_bytes(data: Any) -> int:
    """Return the size of a warmup input or an initial state: an empty text has the four bytes of its length."""
    name = model_config_pb2.DataType.Name(data.data_type).removeprefix("TYPE_")
    size = {"STRING": 4, "BF16": 2}.get(name) or np.dtype(triton_to_np_dtype(name)).itemsize
    return int(np.prod(data.dims)) * size


def data_files(config: Config) -> Iterator[tuple[str, bytes]]:
    """Iterate over the files that a config names, by their paths, with content of the right size."""
    for output in config.output:
        if output.label_filename:
            yield output.label_filename, b"a\n" * int(np.prod([abs(dim) for dim in output.dims]))
    for warmup in config.model_warmup:
        for data in warmup.inputs.values():
            if data.input_data_file:
                yield f"warmup/{data.input_data_file}", bytes(count_bytes(data))
    for state in config.sequence_batching.state:
        for first in state.initial_state:
            if first.data_file:
                yield f"initial_state/{first.data_file}", bytes(count_bytes(first))


def known_sizes(bindings: Any) -> dict[str, list[int]]:
    """Return the sizes of tensors with open dims that their readers declare, as the template knows them."""
    return {each["name"]: [*map(abs, each["sizes"])] for each in bindings if "sizes" in each}


def make_files(rules: Rules, answered: Answers) -> Files:
    """Return the model repository of answers, with code that stands for that of all models."""
    graph, files = answered["graph"], Files()
    versions = {each["name"]: each["versions"] for each in graph["models"] + graph["ensembles"]}
    sizes = {each["name"]: known_sizes(each["outputs"]) for each in graph["models"]}
    for name, text in render_configs(rules, answered).items():
        config = text_format.Parse(text, model_config_pb2.ModelConfig())
        serve_here(config)
        files[f"{name}/config.pbtxt"] = text_format.MessageToString(config, as_utf8=True).encode()
        files |= {f"{name}/{path}": content for path, content in data_files(config)}
        for version in versions.get(name, [1]):
            is_ensemble = config.platform == "ensemble"
            path = f"{name}/{version}/{'.gitkeep' if is_ensemble else 'model.py'}"
            files[path] = b"" if is_ensemble else f"SIZES = {sizes.get(name, {})}\n".encode() + CODE
    return files


@pytest.mark.slow
def test_no_answers_are_accepted_and_broken() -> None:
    rules, broken = Rules(), list[str]()
    accepted = 0
    with Judge() as judge:
        for given, _ in some_answers(ANSWERS, SEED):
            # As in tests/unit/check/test_agreement.py: the answers do not know what is in verbatim text.
            if has_config(given) or not (answered := answer(rules, given)):
                continue
            accepted += 1
            files = make_files(rules, answered)
            graph = answered["graph"]
            asked = (graph["ensembles"] or graph["models"])[-1]
            top, judge.sizes = asked["name"], {asked["name"]: known_sizes(asked["inputs"])}
            if found := errors(files, top):
                why = f"check: {found}"
            elif (why := judge.why_not(files, top)) and (why := judge.why_not_alone(files, top)):
                why = f"Triton: {why}"
            if why:
                shown = yaml.safe_dump(given, sort_keys=False, allow_unicode=True)
                broken.append(f"{why}\n{shown}")
                print(broken[-1], flush=True)
    print(f"SEED {SEED}: {ANSWERS} answers, {accepted} accepted, {len(broken)} of them broken")
    assert not broken, "\n".join(broken)
