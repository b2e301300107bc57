"""The blocks of the documentation that need a server, and those of a generated README."""

from __future__ import annotations

import json
import re
import runpy
import sys
from typing import Any

import numpy as np
import pytest
import yaml
from docs_blocks import read_blocks
from support import PIPELINES, ROOT, UNUSUAL, Generate, Project, serve, slow_but, succeed

pytestmark = pytest.mark.slow

HTTP, GRPC = "http://127.0.0.1:8000", "grpc://127.0.0.1:8001"
LISTS = runpy.run_path(str(ROOT / "scripts/lists.py"))
# The project of each page with a client, what stands before its block, and a pattern of what it prints.
CLIENTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "docs/client.md": ({}, "images = [[open('samples/digit-7.jpg', 'rb').read()]]\n", r"\[\['7'"),
    "docs/llm.md": ({}, "", r" \w+ \w+"),
    **{
        f"examples/{name}/README.md": ({"starting_pipeline": name}, "", about["client"])
        for name, about in LISTS["read_examples"]().items()
        if "client" in about
    },
}


@pytest.mark.parametrize("page", CLIENTS)
def test_a_client_is_answered(page: str, generate: Generate) -> None:
    answers, before, printed = CLIENTS[page]
    text = (ROOT / page).read_text()
    [code] = [code for code in read_blocks(text, "python") if "import Client" in code]
    for whole in read_blocks(text, "yaml"):
        answers = yaml.safe_load(whole) if "project_name: writer" in whole else answers
    project = generate(**answers)
    succeed(project.make("repository"))
    with serve(project) as server:
        code = code.replace(HTTP, server.urls["http"]).replace(GRPC, server.urls["grpc"])
        said = succeed(project.run(sys.executable, "-c", before + code))
    assert re.search(printed, said), said
    assert len([*project.path.glob("fox-*.png")]) == 4 * ("fox" in code)


def test_the_pipeline_and_the_step_of_the_questions(generate: Generate) -> None:
    page = (ROOT / "docs/questions.md").read_text()
    [answers], [step] = read_blocks(page, "yaml"), read_blocks(page, "python")
    project = generate(**yaml.safe_load(answers))
    (project / step.split()[1]).write_text(step)
    succeed(project.make("lint"))
    with serve(project) as server, project.client(server.urls["http"]) as client:
        items = np.arange(100, 200)[None]
        outputs = client.infer({"USER": np.ones((1, 1), dtype=np.int64), "ITEMS": items})
    assert sorted(outputs["BEST"][0]) == sorted(set(outputs["BEST"][0]) & set(items[0]))


def test_python_of_a_generated_readme(default_project: Project) -> None:
    """Its `...` stands for a request, its address for that of a server."""
    [code] = read_blocks((default_project / "README.md").read_text(), "python")
    image = (default_project / "samples/digit-7.jpg").read_bytes()
    with serve(default_project) as server, pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(default_project / "src")
        names: dict[str, Any] = {"image": [image]}
        assert code.count("...") == 1
        exec(code.replace("...", "image").replace(HTTP, server.urls["http"]), names)
    assert names["answer"].LABEL.tolist() == [[b"7"]]


@pytest.mark.parametrize(
    "name",
    slow_but(
        "image in one process",
        names=[
            "fan that joins",
            "awkward names",
            "sequence",
            "decoupled",
            "image in one process",
        ],
    ),
)
def test_curl_of_a_generated_readme(generate: Generate, name: str) -> None:
    """It is answered as it stands there, but for the port."""
    project = generate(**(PIPELINES | UNUSUAL)[name])
    command = read_blocks((project / "README.md").read_text(), "sh")[1]
    assert max(map(len, command.splitlines())) < 400
    with serve(project) as server:
        command = command.replace(HTTP, server.urls["http"])
        command = command.replace(".venv/bin/python", sys.executable)
        shell = f"set -o pipefail; {command.replace('curl', 'curl --silent --show-error --fail-with-body')}"
        answer = succeed(project.run("bash", "-c", shell))
    shown = next(iter(json.loads((project / "vendor/project.json").read_text())["outputs"]))
    assert shown in answer
