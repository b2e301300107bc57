"""A stage on a real Triton: its configs are served, by `ENV=prod` here and by `--model-config-name` in the container."""

from __future__ import annotations

import json
from urllib.request import urlopen

import pytest
from support import Generate, step, succeed

from triton_ensemble.facts.project import STAGE
from triton_ensemble.serve.local.local_triton import LocalTriton

PIPELINE = {
    "tensors": {name: "FP32[1]" for name in "ABC"},
    "steps": [step("one", ["A"], ["B"], fuse=False), step("two", ["B"], ["C"])],
    "stages": {"prod": {"steps": {"one": {"instances": 2, "batching": {"max_queue_delay_us": 7}}}}},
}


def served(triton: LocalTriton) -> dict[str, tuple[int, int]]:
    """Return of each model its instances and its queue delay."""
    found = {}
    for name in ("one", "two"):
        with urlopen(f"{triton.http_url}/v2/models/{name}/config") as answer:
            config = json.load(answer)
        delay = config.get("dynamic_batching", {}).get("max_queue_delay_microseconds", 0)
        found[name] = (config["instance_group"][0]["count"], delay)
    return found


def test_a_stage_is_served(generate: Generate, monkeypatch: pytest.MonkeyPatch) -> None:
    project = generate(**PIPELINE)
    succeed(project.make("repository"))
    repository, model = project / "model_repository", "my_pipeline"
    with LocalTriton(repository, model) as triton:
        usual = served(triton)
    with LocalTriton(repository, model, server_args=("--model-config-name=prod",)) as triton:
        by_flag = served(triton)
    monkeypatch.setenv(STAGE, "prod")
    with LocalTriton(repository, model) as triton:
        by_stage = served(triton)
    assert usual["one"] == (1, 100)
    assert by_flag == by_stage == {**usual, "one": (2, 7)}


def test_make_says_which_stages_there_are(generate: Generate) -> None:
    project = generate(**PIPELINE)
    run = project.make("infer", "ENV=prd")
    assert run.returncode
    assert "pipeline.yml has no stage prd; write one of prod" in run.stderr.splitlines()
