"""Shared by tests: the folder of a team that forked the template."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support import run, succeed
from wheels import pack_wheel

from triton_ensemble import __version__
from triton_ensemble.environment.needs import STATE

TEAM_YML = """\
defaults:
  starting_pipeline: fraud
  extras: [kubernetes]
choices:
  triton_release: ["26.07", "26.08"]
  backends: [python, onnxruntime]
  extras: [monitoring, gateway, kubernetes, kserve, ray]
  ci: [github, gitlab]
settings:
  registry: harbor.example.com/ml
  images:
    tritonserver: harbor.example.com/nvcr/nvidia/tritonserver
    python: harbor.example.com/hub/python
  runner: self-hosted, cpu
  package_index: https://pypi.example.com/simple
  license: Apache-2.0
  header: |
    Copyright Example Ltd.
    SPDX-License-Identifier: Apache-2.0
  labels: {example.com/team: fraud}
  annotations: {example.com/contact: fraud@example.com}
  resources: {cpu: "2", memory: 16Gi}
  readme: "Questions: #fraud in the team's chat."
  alert_labels: {team: fraud}
  grafana_folder: Fraud
  ci:
    setup: [./ci/proxy "$PROXY"]
    test: [make report]
    publish: [./ci/scan]
  pre_commit:
    - {repo: https://git.example.com/hooks, rev: v1, hooks: [{id: secrets, args: [--all]}]}
  update_workflow: example/template@0123456789abcdef0123456789abcdef01234567
errors: [placeholder, short-name]
files: [.github/CODEOWNERS]
examples:
  fraud: {help: "Fraud: an amount in, its score out", code: true, files: [samples/one.json]}
"""
SHORT_NAME = """\
from triton_ensemble.check.repository import Repository


def find(repository: Repository):
    for model in repository.models.values():
        if len(model.name) > 12:
            yield model.problem(f"the name {model.name} is longer than 12", "shorten it", "name")
"""
TEAM = {
    "team.yml": TEAM_YML,
    "README.md": "# What we set\n",
    "files/.github/CODEOWNERS": "* @example/fraud # {{ project_name }}\n",
    "examples/fraud/pipeline.yml": """\
tensors:
  AMOUNT: FP32[1]
  SCORE: FP32[1]
steps:
  - name: score
    backend: python
    inputs: [AMOUNT]
    outputs: [SCORE]
""",
    "examples/fraud/steps/score.py": "# Yours: the team's step.\n",
    "rules/short_name.py": SHORT_NAME,
    "examples/fraud/samples/one.json": '{"inputs": {"AMOUNT": [[1.0]]}, "outputs": {}}\n',
}
# A line of each managed file that a setting of the team changes.
WORDS = {
    ".github/CODEOWNERS": "* @example/fraud # fraud",
    ".github/workflows/ci.yml": 'ci build "harbor.example.com/ml/fraud"',
    ".pre-commit-config.yaml": '- {"repo": "https://git.example.com/hooks", "rev": "v1", "hooks": [',
    ".github/workflows/update.yml": """\
    uses: example/template/.github/workflows/update-project.yml@0123456789abcdef0123456789abcdef01234567
    with: { runs_on: '["self-hosted", "cpu"]' }
""",
    "Makefile": "export PIP_INDEX_URL ?= https://pypi.example.com/simple",
    "README.md": "docker push harbor.example.com/ml/fraud:1",
    "deploy/Dockerfile": "ARG TRITON_IMAGE=harbor.example.com/nvcr/nvidia/tritonserver:26.08-py3",
    "deploy/kubernetes/base/deployment.yaml": 'requests: { cpu: "2", memory: 16Gi',
    "deploy/kubernetes/base/kustomization.yaml": '- pairs: {"example.com/team": "fraud"}',
    "steps/score.py": "# Copyright Example Ltd.\n# SPDX-License-Identifier: Apache-2.0\n# Yours: the team",
    "pyproject.toml": 'license = "Apache-2.0"',
}


def set_up(project: Path, patch: pytest.MonkeyPatch, environment: str = ".venv") -> Path:
    """Make a folder a project whose own environment runs, as after `make setup`. Return the environment."""
    (project / "vendor").mkdir(exist_ok=True)
    for name in (".copier-answers.yml", f"vendor/triton_ensemble-{__version__}-py3-none-any.whl"):
        (project / name).touch()
    folder = project / environment
    folder.mkdir(parents=True)
    (folder / STATE).write_text(json.dumps({"root": str(project), "toolkit": "its hash"}))
    patch.setattr(sys, "prefix", str(folder))
    return folder


def write_team(template: Path, files: dict[str, str] = TEAM) -> Path:
    """Write the team's files into a template, commit them, and give the newest commit a new tag."""
    for name, text in files.items():
        path = template / "team" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    release(template, "v1.0.1")
    return template


def release(template: Path, tag: str) -> None:
    """Commit all of a template with its wheel, and tag it."""
    pack_wheel(template)
    for command in (["add", "--all"], ["commit", "-q", "--allow-empty", "-m", tag], ["tag", tag]):
        succeed(run("git", *command, cwd=template))


def lacking(project: Path) -> list[str]:
    """Return the files of a project that lack the team's words."""
    return [name for name, words in WORDS.items() if words not in (project / name).read_text()]
