"""`make infer` says when the server that it asks was started before pipeline.yml was applied."""

from __future__ import annotations

import pytest
from support import PIPELINES, Generate, Project, succeed

from triton_ensemble.facts.project import Project as Facts
from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.testing.outdated import find_outdated


@pytest.mark.slow
def test_a_server_from_before_a_change_is_named(
    default_project: Project, generate: Generate
) -> None:
    project = generate()
    facts = Facts.load(project.path)
    succeed(default_project.make("repository"))
    with LocalTriton(default_project / "model_repository", facts.ensemble) as triton:
        for url in (triton.http_url, triton.grpc_url):
            assert find_outdated(facts, url) == []
        path = project / "pipeline.yml"
        path.write_text(path.read_text().replace("max_batch_size: 8", "max_batch_size: 4"))
        process = project.make("infer", TRITON_URL=triton.http_url)
        assert succeed(process).count("LABEL: ") == 4
        line = f"{triton.http_url}: serves another classify, image_classification, label, preprocess than"
        assert line in process.stderr
    assert find_outdated(facts, triton.http_url) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["no batch dimension", "kinds of steps", "awkward names"])
def test_a_server_that_is_current_is_not(generate: Generate, name: str) -> None:
    project = generate(**PIPELINES[name])
    succeed(project.make("repository"))
    facts = Facts.load(project.path)
    with LocalTriton(facts.repository, facts.ensemble) as triton:
        for url in (triton.http_url, triton.grpc_url):
            assert find_outdated(facts, url) == []
