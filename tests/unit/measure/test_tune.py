"""`make tune`: its edits of pipeline.yml, the configs it tries, and all of it on a real Triton."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import (
    MATRIX,
    PIPELINES,
    UNUSUAL,
    Generate,
    Project,
)
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

from triton_ensemble.compile.file import replace, set_values
from triton_ensemble.facts.config.repository import list_fused_steps, model_configs
from triton_ensemble.measure.tune_settings import (
    Settings,
    change_setting,
    configure,
    edits,
    tunable,
)

TEXT = """\
# The owner's.
project_name: a # mine
max_queue_delay_us: 100 # waits
tensors: {A: "FP32[1]", B: "FP32[1]"}
steps:
  - name: one   # the first
    inputs: [A]
    outputs:
      - B

  # the second
  - {name: two, inputs: [B], outputs: [C], batching: {preferred_batch_size: [4]}}
"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("max_queue_delay_us",), 0, "_us: 100 # waits", "_us: 0 # waits"),
        (("steps", 0, "instances"), 2, "[A]\n", "[A]\n    instances: 2\n"),
        (("steps", 0, "batching"), False, "[A]\n", "[A]\n    batching: false\n"),
        (("steps", 1, "instances"), 4, "}}\n", "}, instances: 4}\n"),
        (("steps", 1, "batching", "max_queue_delay_us"), 5, "[4]}", "[4], max_queue_delay_us: 5}"),
        (("gpu_count",), 1, 'B: "FP32[1]"}\n', 'B: "FP32[1]"}\ngpu_count: 1\n'),
    ],
    ids=str,
)
def test_a_value_changes_and_nothing_else(path: Any, value: Any, old: str, new: str) -> None:
    assert TEXT.count(old) == 1
    assert set_values(TEXT, {path: value}) == TEXT.replace(old, new)


def test_several_values_change_at_once() -> None:
    changes: Any = {("steps", 0, "instances"): 2, ("steps", 0, "batching"): False}
    changes[("max_queue_delay_us",)] = 7
    first = yaml.safe_load(set_values(TEXT, changes))
    assert (first["max_queue_delay_us"], first["steps"][0]["instances"]) == (7, 2)
    assert first["steps"][0]["batching"] is False
    assert set_values(set_values(TEXT, changes), changes) == set_values(TEXT, changes)


def test_a_file_without_a_line_end() -> None:
    assert set_values("a: 1", {("b",): 2}) == "a: 1\nb: 2"


def test_a_step_that_an_alias_repeats_is_not_changed() -> None:
    text = "steps:\n- &one {name: one}\n- *one\n"
    with pytest.raises(ValueError, match=r"by hand: steps.0.instances: 2$"):
        set_values(text, {("steps", 0, "instances"): 2})


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """The links to it stay, its line ends, and what it may be used for."""
    file, link = tmp_path / "pipeline.yml", tmp_path / "link.yml"
    file.write_text("a: 1\n")
    file.chmod(0o640)
    link.symlink_to(file)
    replace(link, "a: 2\r\n")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"a: 2\r\n", 0o640)
    assert sorted(tmp_path.iterdir()) == [link, file]


def own_parameters(pipeline: Any) -> set[str]:
    return {given["name"] for given in pipeline["steps"] if "parameters" in given}


NAMES = [
    *("default", "torchscript", "fan", "kinds of steps", "awkward names", "shared intermediate"),
    "image in one process",
    *UNUSUAL,
]


QUICK = {("default", min), ("default", max), ("steps in one process", max)}


@pytest.mark.parametrize(
    ("name", "choose"),
    [
        pytest.param(*pair, marks=MATRIX * (pair not in QUICK))
        for pair in (("default", min), *((name, max) for name in NAMES))
    ],
)
def test_what_is_tried_is_what_an_update_makes(
    generate: Generate, name: str, choose: Callable[[Any], Any]
) -> None:
    """The configs that are measured are those of a project whose pipeline.yml has the settings."""
    project = generate(**(PIPELINES | UNUSUAL)[name])
    text, before = (
        (project / "pipeline.yml").read_text(),
        model_configs(project / "model_repository"),
    )
    pipeline = yaml.safe_load(text)
    settings: Settings = {}
    for setting in tunable(pipeline, before, list_fused_steps(project / "model_repository"), 4):
        settings = change_setting(settings, setting, choose(setting.values))
    tried = {
        model: configure(model, config, settings, model in own_parameters(pipeline))
        for model, config in before.items()
    }
    written = set_values(text, edits(settings))
    assert model_configs(generate(**yaml.safe_load(written)) / "model_repository") == tried


def test_the_settings_of_the_default_project(default_project: Project) -> None:
    pipeline = yaml.safe_load((default_project / "pipeline.yml").read_text())
    values = {
        str(setting): setting.values
        for setting in tunable(pipeline, model_configs(default_project / "model_repository"), {}, 2)
    }
    steps = ("preprocess", "classify", "label")
    assert values == {
        "max_queue_delay_us": (0, 100, 1000, 5000),
        **{f"{name}.instances": (1, 2) for name in steps},
        **{f"{name}.batching": (False, True) for name in steps},
        **{f"{name}.max_batch_size": (8, 16, 32) for name in steps},
    }


@pytest.mark.parametrize(
    ("kind", "cores", "counts"),
    [("KIND_CPU", 1, (1, 2)), ("KIND_CPU", 4, (1, 2, 4)), ("KIND_GPU", 1, (1, 2, 4))],
)
def test_instances_are_tried_up_to_the_cores_but_always_two(
    kind: str, cores: int, counts: tuple[int, ...]
) -> None:
    config = model_config_pb2.ModelConfig(instance_group=[{"count": 1, "kind": kind}])
    pipeline = {"steps": [{"name": "one", "backend": "python"}]}
    [setting] = tunable(pipeline, {"one": config}, {}, cores)
    assert (str(setting), setting.values) == ("one.instances", counts)


@pytest.mark.parametrize("name", ["steps in one process", "image in one process"])
def test_steps_that_share_a_model_are_tuned_as_one(generate: Generate, name: str) -> None:
    project = generate(**(PIPELINES | UNUSUAL)[name])
    pipeline, shared = (
        yaml.safe_load((project / "pipeline.yml").read_text()),
        list_fused_steps(project / "model_repository"),
    )
    [model] = shared
    names = [
        str(setting)
        for setting in tunable(pipeline, model_configs(project / "model_repository"), shared, 2)
    ]
    assert [name for name in names if model in name] == [
        f"{model}.{field}" for field in ("instances", "batching", "max_batch_size")
    ]
    assert not any(name.partition(".")[0] in shared[model] for name in names)


def test_what_a_config_says_otherwise_is_left_alone(generate: Generate) -> None:
    """It was edited by hand, or `make update` has not run."""
    project = generate(**PIPELINES["one step"])
    config = project / "model_repository/only/config.pbtxt"
    config.write_text(config.read_text().replace("count: 1", "count: 3"))
    pipeline = yaml.safe_load((project / "pipeline.yml").read_text())
    assert "only.instances" not in map(
        str, tunable(pipeline, model_configs(project / "model_repository"), {}, 2)
    )
