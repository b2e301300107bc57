"""The files that the page of the gateway loads, without a browser and without a Triton: files, facts, samples, headers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from gateway_service import Service, gateway
from support import NOWHERE, PIPELINES, Generate, Project, step

TRITON = f"grpc://127.0.0.1:{NOWHERE}"
FILES = ["", "docs", "static/page.js", "static/style.css", "pipeline.json", "samples/digit-7.json"]


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    return generate(extras=["gateway"])


@pytest.fixture(scope="module")
def service(project: Project) -> Iterator[Service]:
    with gateway(project, TRITON) as service:
        yield service


@pytest.mark.parametrize("path", FILES)
def test_nothing_is_run_that_is_not_of_the_service(service: Service, path: str) -> None:
    """Also a sample that is opened as a page: it is bytes to read, and runs nothing."""
    answer = service.ask("GET", f"/{path}")
    policy = dict(
        part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; ")
    )
    assert answer.status == 200
    assert (policy["default-src"], policy["script-src"], policy["style-src"]) == (
        "'none'",
        "'self'",
        "'self'",
    )
    assert "unsafe" not in str(policy)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.slow
def test_a_proxy_may_drop_the_path_that_it_has_the_service_at(project: Project) -> None:
    with gateway(project, TRITON, GATEWAY_ROOT_PATH="/api") as service:
        for path in [*FILES, "healthz", "openapi.json"]:
            for sent in (f"/{path}", f"/api/{path}"):
                assert service.ask("GET", sent).status == 200, sent
        assert service.ask("GET", "/openapi.json").json()["servers"] == [{"url": "/api"}]
        assert service.ask("HEAD", "/static/page.js").status == 200
        for sent in ("/docs/", "/api/docs/"):
            assert service.ask("GET", sent).status == 404, sent
        assert service.ask("GET", "/static/none").status == 404
        assert service.ask("GET", "/static/%2e%2e/page.py").status == 404


def test_what_is_there_can_be_asked_by_head(service: Service) -> None:
    for path in ("/", "/docs", "/healthz"):
        answer = service.ask("HEAD", path)
        assert (answer.status, answer.content) == (200, b""), path
    assert service.ask("HEAD", "/readyz").status == 503  # there is no Triton


def test_the_facts_are_those_of_the_project(service: Service, project: Project) -> None:
    facts = service.ask("GET", "/pipeline.json").json()
    assert facts.pop("samples") == ["digit-7-png", "digit-7", "digits-2-6"]
    assert facts == json.loads((project / "gateway/pipeline.json").read_text())
    assert [step["name"] for step in facts["steps"]] == ["preprocess", "classify", "label"]


def test_the_facts_name_the_steps_of_a_fused_model(generate: Generate) -> None:
    steps = [step("top", ["A"], ["B"]), step("vad", ["B"], ["C"])]
    fused = generate(tensors=dict.fromkeys("ABC", "FP32[1]"), steps=steps, extras=["gateway"])
    facts = json.loads((fused / "gateway/pipeline.json").read_text())
    [model] = facts["fused"]
    assert facts["fused"][model] == ["top", "vad"]
    assert (fused / f"model_repository/{model}/config.pbtxt").is_file()


def test_a_sample_comes_as_it_is(service: Service, project: Project) -> None:
    for name in ("digit-7.jpg", "digit-7.json"):
        answer = service.ask("GET", f"/samples/{name}")
        assert answer.content == (project / f"samples/{name}").read_bytes()
        assert answer.headers["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize(
    "name", ["../pipeline.yml", "%2e%2e/pipeline.yml", "/etc/passwd", "", "x", "."]
)
def test_no_other_file_is_answered(service: Service, name: str) -> None:
    for folder in ("samples", "static"):
        assert service.ask("GET", f"/{folder}/{name}").status == 404


def test_the_page_is_no_part_of_the_api(service: Service) -> None:
    paths = service.ask("GET", "/openapi.json").json()["paths"]
    assert paths.keys() == {"/predict", "/healthz", "/readyz"}


def test_facts_and_samples_need_a_key_and_the_page_does_not(project: Project) -> None:
    with gateway(project, TRITON, GATEWAY_API_KEYS="secret") as service:
        status = {path: service.ask("GET", f"/{path}").status for path in FILES}
        assert [status[path] for path in FILES] == [200, 200, 200, 200, 401, 401]
        assert service.ask("GET", "/pipeline.json", X_API_Key="secret").status == 200


@pytest.mark.slow
def test_a_project_without_the_facts_says_how_to_get_them(generate: Generate) -> None:
    project = generate(**PIPELINES["awkward names"], extras=["gateway"])
    facts = json.loads((project / "gateway/pipeline.json").read_text())
    spelled = {tensor["name"]: tensor["argument"] for tensor in facts["inputs"]}
    assert spelled["input.1"] == "input_x2e_1"
    (project / "gateway/pipeline.json").unlink()
    with gateway(project, TRITON) as service:
        answer = service.ask("GET", "/pipeline.json")
        assert answer.status == 404
        assert answer.json()["error"] == "gateway/pipeline.json is not there; take it back from git"
        damaged = json.dumps(facts | {"steps": [facts["steps"][0] | {"reads": "A"}]})
        for text, problem in {
            damaged: 'steps[0].reads is "A", not a list',
            json.dumps(facts | {"batch": None}): "batch is null, not an integer",
            json.dumps({k: v for k, v in facts.items() if k != "fused"}): "lacks fused",
            "<<<<<<< before updating\n{}": "Expecting value: line 1 column 1 (char 0)",
        }.items():
            (project / "gateway/pipeline.json").write_text(text)
            answer = service.ask("GET", "/pipeline.json")
            assert answer.status == 500
            line = f"gateway/pipeline.json: {problem}; take it back from git"
            assert answer.json()["error"] == line
