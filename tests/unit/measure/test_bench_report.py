"""`make bench`: what it says of figures, and which runs it compares."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import ROOT
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

from triton_ensemble.measure.bench import measure_levels
from triton_ensemble.measure.bottleneck import bottleneck, describe_rare
from triton_ensemble.measure.critical_path import critical_path
from triton_ensemble.measure.figures import Level, Load, ModelTimes
from triton_ensemble.measure.levels import Bench
from triton_ensemble.measure.open_dims import apart
from triton_ensemble.measure.report import comparison, model_rows
from triton_ensemble.measure.runs import Run
from triton_ensemble.measure.statistics import (
    instances,
    model_times,
    read_quantiles,
    step_seconds,
    step_shares,
)


def level(cores_busy: float | None = 0.5, own_cores: float = 0.1, **of_model: Any) -> Level:
    """Return a level of 8 callers, with a model that has nothing to do and one as given."""
    idle = ModelTimes("idle", 100, 1.0, 100.0, 100.0, 1, 0.1, 0)
    model = dataclasses.replace(idle, model="net", **of_model)
    load = Load(8, 100.0, 1000.0, 2000.0, 3000.0, own_cores=own_cores)
    return Level(load, [idle, model], 4000.0, cores_busy, [idle, model])


def in_parallel(measured: Level) -> Level:
    return dataclasses.replace(measured, critical_path=measured.models[1:])


def test_all_requests_of_a_batch_wait_for_the_calls_made_for_it() -> None:
    config = model_config_pb2.ModelConfig()
    batch = {"requests": 8, "rows": 8, "executions": 1, "compute_ns": 8 * 21_000_000}
    call = {"requests": 1, "rows": 1, "executions": 1, "compute_ns": 20_000_000}
    done = {"ask": Counter(batch), "slow": Counter(call)}
    ask, _ = model_times(done, 1.0, {"ask": config, "slow": config}, "ask", {"ask": ["slow"]})
    assert (ask.compute_us, ask.called_us) == (21_000, 20_000)


@pytest.mark.parametrize(
    ("groups", "count"),
    [
        ([], 1),
        ([{"count": 2, "kind": "KIND_CPU"}], 2),
        ([{"count": 2, "kind": "KIND_GPU", "gpus": [0, 1, 2]}], 6),
        ([{"count": 1, "gpus": [0]}, {"count": 2, "kind": "KIND_CPU"}], 3),
    ],
)
def test_instances_are_counted_on_each_gpu(groups: list[Any], count: int) -> None:
    assert instances(model_config_pb2.ModelConfig(instance_group=groups)) == count


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (level(busy=0.97, queue_us=9e3), "net is the bottleneck: its 1 instance worked for 97%"),
        (level(busy=0.97, instances=2), "Try `instances: 4` of step net."),
        (level(busy=0.97, cores_busy=None), "net is the bottleneck"),
        (level(busy=0.6, cores_busy=0.99), "net does 86% of what the models do"),
        (level(busy=0.6, cores_busy=0.99), "try `batching: false` of it"),
        (level(busy=0.6, cores_busy=0.99, batch=4.0), "or give it another machine"),
        (level(own_cores=0.95), "The load itself is the limit"),
        (
            level(queue_us=2500.0),
            "try a smaller `max_queue_delay_us`, or `batching: false` of step",
        ),
        (
            level(),
            "No model is busy all the time: of a request's 4.00 ms the models worked 0.20 ms",
        ),
        (level(), "and 3.60 ms is overhead between them. Try fewer steps."),
        (level(compute_us=3500.0), "Only a faster net would answer much sooner"),
        (
            in_parallel(level(compute_us=4010.0)),
            "4.00 ms the models worked 4.01 ms one after",
        ),
    ],
)
def test_the_bottleneck(measured: Level, said: str) -> None:
    assert said in bottleneck([measured])


@pytest.mark.parametrize(
    ("cores_busy", "busy", "said"),
    [
        (0.5, 0.9, "of step caller. For 90% of that it waited for models that it calls: raise "),
        (0.5, 0.98, "net is the bottleneck: its 1 instance worked for 98%"),
        (0.99, 0.9, "net does 82% of what the models do."),
    ],
)
def test_what_a_model_waits_for_is_not_its_own_work(
    cores_busy: float, busy: float, said: str
) -> None:
    measured = level(cores_busy, busy=busy)
    caller = ModelTimes("caller", 100, 1.0, 0.0, 1000.0, 1, 0.97, 0, called_us=900.0)
    assert said in bottleneck([dataclasses.replace(measured, models=[caller, *measured.models])])


@pytest.mark.parametrize("compute_us", [3500.0, 4000.0, 4500.0])
def test_fewer_steps_are_no_help_where_little_is_lost_between_them(compute_us: float) -> None:
    assert "fewer steps" not in bottleneck([in_parallel(level(compute_us=compute_us))])


def ensemble(*steps: tuple[str, str, str]) -> Any:
    """Return a config with steps of a model each, and the tensors that it reads and writes."""
    config = model_config_pb2.ModelConfig(platform="ensemble")
    for model, reads, writes in steps:
        config.ensemble_scheduling.step.add(
            model_name=model,
            input_map={f"in{i}": tensor for i, tensor in enumerate(reads)},
            output_map={"out": writes},
        )
    return config


def test_the_critical_path_takes_longest() -> None:
    """It is the one with a nested ensemble, of two branches that join. Steps are in no order."""
    took = {"fast": 1.0, "slow": 2.0, "deep": 1.5, "join": 1.0}
    times = {name: ModelTimes(name, 1, 1.0, 0.0, us, 1, 0.1, 0) for name, us in took.items()}
    configs = {
        "all": ensemble(
            ("join", "BCD", "E"), ("fast", "A", "B"), ("slow", "A", "C"), ("in", "A", "D")
        ),
        "in": ensemble(("deep", "X", "Y"), ("fast", "Y", "Z")),
    }
    path = [model.model for model in critical_path(configs, "all", times)]
    assert path == ["deep", "fast", "join"]
    alone = {"one": model_config_pb2.ModelConfig()}
    assert critical_path(alone, "one", {"one": times["deep"]}) == [times["deep"]]


def test_the_advice_for_a_model_that_steps_share_is_for_its_steps() -> None:
    said = bottleneck([level(busy=0.97)], ["net"])
    assert "Try `instances: 2` at each step of net, with `fuse: true`." in said


METRICS = """\
# HELP step_seconds_total Seconds spent on the step
step_seconds_total{model="net",step="top",version="1"} 1.5
step_seconds_total{model="net",step="vad",version="1"} 4.5
step_seconds_total{model="net",step="vad",version="2"} 2
step_seconds_total{model="other",step="lone",version="1"} 3
step_calls_total{model="net",step="top",version="1"} 7
"""


def test_the_slow_step_of_a_model_that_steps_share_is_named() -> None:
    before = Counter({("net", "top"): 0.5, ("net", "vad"): 2.5})
    shares = step_shares(before, step_seconds(METRICS))
    assert shares == {"net": {"top": 0.2, "vad": 0.8}}
    measured = level(busy=0.97, compute_us=1000.0, steps=shares["net"])
    assert bottleneck([measured], ["net"]).endswith(" Of the time of net, its step vad takes 80%.")
    rows = [line.split()[1:] for line in model_rows([measured])]
    assert rows[2:] == [
        ["net", "0.10", "1.00", "1.0", "97%"],
        ["-", "top", "0.20", "19%"],
        ["-", "vad", "0.80", "78%"],
    ]
    saved = json.loads(json.dumps(dataclasses.asdict(measured)))
    assert Level.restore(saved) == measured


SUMMARY = """\
nv_inference_compute_infer_summary_us{model="net",version="1",quantile="0.5"} 1000
nv_inference_compute_infer_summary_us{model="net",version="1",quantile="0.99"} 32000
nv_inference_compute_infer_summary_us{model="idle",version="1",quantile="0.5"} 200
nv_inference_compute_infer_summary_us{model="idle",version="1",quantile="0.99"} Nan
"""


@pytest.mark.parametrize(("idle_p99_us", "is_named"), [(6e3, True), (20e3, False)])
def test_a_model_that_is_slow_now_and_then_is_named_unless_others_are(
    idle_p99_us: float, is_named: bool
) -> None:
    quantiles = read_quantiles(SUMMARY.replace("Nan", str(idle_p99_us)))
    assert quantiles == {"net": [1000.0, 32000.0], "idle": [200.0, idle_p99_us]}
    models = [dataclasses.replace(m, quantiles_us=quantiles[m.model]) for m in level().models]
    measured = dataclasses.replace(level(), models=models)
    named = [line.partition(": ")[2][:39] for line in describe_rare(measured)]
    assert named == ["its p99 of 32.0 ms is 32 times its p50."] * is_named
    assert [*model_rows([measured])][-1].split()[-2:] == ["1.00", "32.00"]


def test_the_bottleneck_of_what_nothing_is_known_of() -> None:
    silent = dataclasses.replace(level(), models=[])
    assert "statistics are switched off" in bottleneck([silent])
    failed = dataclasses.replace(silent, load=dataclasses.replace(silent.load, errors={"no": 1}))
    assert "Some requests failed" in bottleneck([level(), failed])


def test_a_level_survives_json() -> None:
    saved = json.loads(json.dumps(dataclasses.asdict(level())))
    assert Level.restore(saved) == level()


RUN = Run("net", 1, 5.0, "local", 2, [level()])


@pytest.mark.parametrize(
    ("of_model", "dims", "is_named"),
    [
        ({"busy": 0.6, "batch": 1.1}, [-1, 4], True),
        ({"busy": 0.6, "batch": 1.1}, [4, 4], False),
        ({"busy": 0.6, "batch": 5.0}, [-1, 4], False),
        ({"busy": 0.1, "batch": 1.1}, [-1, 4], False),
    ],
)
def test_a_model_is_named_whose_requests_of_other_shapes_are_not_joined(
    of_model: dict[str, float], dims: list[int], is_named: bool
) -> None:
    net = model_config_pb2.ModelConfig(dynamic_batching={})
    net.input.add(name="IDS", dims=dims)
    configs = {"idle": model_config_pb2.ModelConfig(), "net": net}
    run = dataclasses.replace(RUN, levels=[level(**of_model)])
    wanted = [
        "net has 1.1 requests a batch, of 8 callers: dims of IDS vary, and Triton joins requests of "
        "equal shapes only. Pad them to one size, or few, in the step before: `pad_to_bucket` of triton_step."
    ]
    assert [*apart(run, configs)] == (wanted if is_named else [])
    net.input[0].allow_ragged_batch = True
    assert [*apart(run, configs)] == []


def test_a_run_survives_its_file(tmp_path: Path) -> None:
    RUN.write(tmp_path / "run.json")
    assert Run.read(tmp_path / "run.json") == RUN


def test_a_run_of_another_version_is_read_by_the_fields_that_are_known(tmp_path: Path) -> None:
    """Version 0.2.0 wrote which program made the load."""
    saved = json.loads(json.dumps(dataclasses.asdict(RUN)))
    saved["load"] = "this program's callers"
    saved["levels"][0]["load"]["in_python"] = True
    saved["levels"][0]["way"] = saved["levels"][0].pop("critical_path")
    (tmp_path / "run.json").write_text(json.dumps(saved))
    [read] = Run.read(tmp_path / "run.json").levels
    assert read == dataclasses.replace(level(), critical_path=[])


def test_the_comparison_has_what_both_have() -> None:
    half = dataclasses.replace(level().load, throughput=50.0)
    slower = dataclasses.replace(RUN, levels=[dataclasses.replace(level(), load=half)])
    rows = [*comparison(slower, RUN)]
    assert len(rows) == 2
    assert "50.00 -> 100.00 +100%" in rows[1]


def test_the_comparison_says_what_else_differs() -> None:
    other = dataclasses.replace(RUN, seconds=1.0, cores=4, levels=[])
    assert [*comparison(other, RUN)] == [
        "The conditions differ: seconds 1.0 -> 5.0, cores 4 -> 2.",
        "The runs have no level in common: give --concurrency.",
    ]


@pytest.mark.parametrize(
    ("ensemble", "rows", "said"),
    [
        ("other", 1, "old.json: is of net, not of other"),
        ("net", 4, 'old.json: is of 1 rows a request, not of 4; write ARGS="--rows 1"'),
    ],
)
def test_what_is_not_comparable_is_refused(ensemble: str, rows: int, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        RUN.check(Path("old.json"), ensemble, rows)


def test_the_settings_that_it_names_exist() -> None:
    """pipeline.yml has what the sentences say to try."""
    text = (ROOT / "src/triton_ensemble/measure/bottleneck.py").read_text()
    known = (ROOT / "hooks/catalog/fields.yml").read_text()
    for setting in {"instances", "batching", "max_queue_delay_us"}:
        assert f"`{setting}" in text
        assert f" {setting}:" in known


class OverloadedFrom(Bench):
    """Levels of a server that answers no request within a level from some callers on."""

    def __init__(self, callers: int) -> None:
        self.callers = callers

    def level(self, concurrency: int, seconds: float) -> Level:
        throughput = 10.0 * concurrency if concurrency < self.callers else 0.0
        return dataclasses.replace(
            level(), load=dataclasses.replace(level().load, throughput=throughput)
        )


@pytest.mark.parametrize("asked", [[], [1, 2, 4, 8]])
def test_a_level_without_an_answer_is_the_last(
    asked: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    levels = measure_levels(OverloadedFrom(4), asked, 0.3)
    assert [level.load.throughput for level in levels] == [10, 20]
    assert capsys.readouterr().out.endswith(
        "\nNo request was answered within 0.3 s: give more --seconds.\n"
    )


def test_a_first_level_without_an_answer_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"^No request was answered within 0.3 s"):
        measure_levels(OverloadedFrom(1), [], 0.3)
