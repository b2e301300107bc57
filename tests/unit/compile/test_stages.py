"""Stages of pipeline.yml: what they may change, the configs that they have of their own, and promotions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from answers_support import GOOD
from support import Generate, call, step

from triton_ensemble.check.pipeline.problems import list_problems
from triton_ensemble.check.rules.engine import check
from triton_ensemble.compile.rules import rules
from triton_ensemble.facts.project import Project, ProjectError

STEPS = [
    step("one", ["A"], ["B"], "openvino", versions=[1, 2]),
    step("two", ["B"], ["C"], device="cpu"),
]
PIPELINE: dict[str, Any] = {
    "tensors": {name: "FP32[1]" for name in "ABC"},
    "steps": STEPS,
    "gpu_count": 1,
    "extras": ["kubernetes"],
}
DIGEST = "sha256:" + 64 * "a"
STAGES = {"staging": {"gpu_count": 0}, "prod": {"steps": {"one": {"instances": 4}}, "replicas": 3}}


def lines(stages: Any, **more: Any) -> list[str]:
    answers = GOOD | PIPELINE | {"stages": stages} | more
    return [rules().line(each) for each in list_problems(answers, rules())]


def test_what_differs_may_be_nothing_of_the_models() -> None:
    assert lines(STAGES) == lines({"dev": {"cpu": "500m", "memory": "2Gi"}}) == []


@pytest.mark.parametrize(
    ("stages", "line"),
    [
        (
            {"prod": {"steps": {"tow": {"instances": 2}}}},
            "stage prod: names tow, which is not a step with a model of its own; did you mean two?",
        ),
        (
            {"prod": {"steps": {"one": {"versions": [3]}}}},
            "stage prod: step one lacks the version 3; write versions that the step has",
        ),
        (
            {"prod": {"steps": {"one": {"instances": [{"device": "gpu", "gpus": [1]}]}}}},
            "stage prod: step one: instances.gpus: instance group one_0 of model one wants a GPU that the server has not: ",
        ),
        ({"prod": {}}, "stages prod: is {}; write a mapping"),
        ({"Prod": {"replicas": 2}}, 'stages has the name "Prod"; write one of at most 30 small '),
        ({"prod": {"replicas": 0}}, "stages prod: replicas is 0; write a whole number, 1 or more"),
        ({"prod": {"memory": 2}}, "stages prod: memory is 2; write a quantity in quotes, "),
        (
            {"prod": {"steps": {"one": {"max_batch_size": 2}}}},
            "stages prod: steps one: has the field `max_batch_size`, which is unknown",
        ),
    ],
)
def test_what_a_stage_can_not_be(stages: Any, line: str) -> None:
    [found] = lines(stages)
    assert found.startswith(line)


@pytest.mark.parametrize("backend", ["tensorrt", "tensorrtllm", "vllm"])
def test_a_backend_for_gpus_alone_needs_one_in_each_stage(backend: str) -> None:
    steps = [{**step("two", ["A"], ["C"], backend), "max_batch_size": 0, "decoupled": True}]
    says = f"step two: {backend} serves on GPUs only, and `gpu_count` is 0; raise it, or write another backend"
    tensors = dict.fromkeys("AC", "FP32[1]")
    more: Any = {"steps": steps, "tensors": tensors, "max_batch_size": 0, "triton_release": "26.07"}
    assert lines({}, **more) == []
    assert lines({}, **more, gpu_count=0) == [says]
    assert lines({"cpu": {"gpu_count": 0}}, **more) == [f"stage cpu: {says}"]


def test_an_image_for_the_cpu_has_no_stage_with_gpus() -> None:
    [line] = lines({"prod": {"gpu_count": 1}}, gpu_count=0)
    assert line.startswith("stage prod: has GPUs, and the image of a pipeline with `gpu_count: 0`")


def test_a_stage_does_not_fuse_other_steps() -> None:
    fused = [step("one", ["A"], ["B"]), step("two", ["B"], ["C"])]
    [line] = lines({"prod": {"steps": {"one": {"instances": 2}}}}, steps=fused)
    assert line.startswith(
        "stage prod: changes a step that is fused with others, so that the model one is another; "
    )


def test_only_a_config_that_differs_is_written(generate: Generate) -> None:
    project = generate(**PIPELINE, stages=STAGES)
    configs = {
        path.relative_to(project.path).as_posix()
        for path in project.path.glob("model_repository/*/configs/*")
    }
    assert configs == {"model_repository/one/configs/prod.pbtxt"}
    usual = (project / "model_repository/one/config.pbtxt").read_text()
    prod = (project / "model_repository/one/configs/prod.pbtxt").read_text()
    assert prod.replace("count: 4", "count: 1") == usual != prod
    assert (
        "!/model_repository/*/configs/*.pbtxt" in (project / ".gitignore").read_text().splitlines()
    )
    assert Project.load(project.path).stages == ("staging", "prod")


def test_the_check_reads_the_configs_of_stages(generate: Generate) -> None:
    project = generate(**PIPELINE, stages=STAGES)
    config = project / "model_repository/one/configs/prod.pbtxt"
    config.write_text(config.read_text().replace("count: 4", "count: four"))
    found = {(each.file, each.rule) for each in check(project / "model_repository")}
    assert (config, "parse") in found


def test_an_unknown_stage(generate: Generate) -> None:
    project = Project.load(generate(**PIPELINE, stages=STAGES).path)
    project.check_stage("")
    project.check_stage("prod")
    with pytest.raises(
        ProjectError, match=r"^pipeline.yml has no stage prd; write one of staging, prod$"
    ):
        project.check_stage("prd")
    with pytest.raises(
        ProjectError, match=r"^pipeline.yml has no stage prod; declare it in `stages`$"
    ):
        Project.load(generate().path).check_stage("prod")


def promoted(project: Path, stage: str) -> Any:
    path = project / "deploy/stages" / stage / "kustomization.yaml"
    return yaml.safe_load(path.read_text())["images"]


def test_a_stage_gets_the_images_of_another(generate: Generate) -> None:
    project = generate(**PIPELINE, stages=STAGES)
    refused = [
        call(project, "promote", "staging"),
        call(project, "promote", "prod", "staging"),
        call(project, "promote", "prd"),
        call(project, "promote"),
    ]
    assert [each.status for each in refused] == [1] * 4
    assert [each.err.strip() for each in refused] == [
        "deploy/kubernetes/kustomization.yaml: has no image with a digest; run: make pin IMAGE=NAME@sha256:...",
        "deploy/stages/staging/kustomization.yaml: has no image with a digest; run: make promote TO=staging",
        "pipeline.yml has no stage prd; write one of staging, prod",
        "promote: TO names no stage; write TO=NAME, of one in `stages`",
    ]
    base = project / "deploy/kubernetes/kustomization.yaml"
    base.write_text(
        base.read_text().replace('newTag: "1" # or digest: sha256:...', f"digest: {DIGEST}")
    )
    name = yaml.safe_load(base.read_text())["images"][0]["newName"]
    assert call(project, "promote", "staging").status == 0
    assert promoted(project.path, "staging") == [{"name": name, "digest": DIGEST}]
    assert promoted(project.path, "prod") == []
    before = (project / "deploy/stages/prod/kustomization.yaml").read_text()
    assert call(project, "promote", "prod", "staging").status == 0
    assert promoted(project.path, "prod") == promoted(project.path, "staging")
    after = (project / "deploy/stages/prod/kustomization.yaml").read_text()
    assert after.splitlines()[:10] == before.splitlines()[:10]
