"""Shared by tests: the command adopt: an existing model repository -> a pipeline.yml that generates equal configs, or the reason why Triton would refuse it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import ROOT

from triton_ensemble.cli import main

CORPUS = ROOT.parent / "shared" / "corpus"


def adopted(*arguments: str) -> int:
    return main(["adopt", *arguments])


IN = 'input { name: "IN" data_type: TYPE_FP32 dims: [4] }'
OUT = 'output { name: "OUT" data_type: TYPE_FP32 dims: [4] }'
TENSORS = f"{IN}\n{OUT}\n"
CPU = "instance_group { count: 1 kind: KIND_CPU }\n"
PYTHON = f'backend: "python"\n{TENSORS}{CPU}'


def step(model: str, inputs: dict[str, str], outputs: dict[str, str], version: int = -1) -> str:
    maps = [
        f"{side}_map {{ key: {json.dumps(key)} value: {json.dumps(value)} }}"
        for side, names in (("input", inputs), ("output", outputs))
        for key, value in names.items()
    ]
    return f'step {{ model_name: "{model}" model_version: {version} {" ".join(maps)} }}'


def ensemble(*steps: str, interface: str = TENSORS, more: str = "") -> str:
    return f'platform: "ensemble"\n{interface}{more}ensemble_scheduling {{ {" ".join(steps)} }}\n'


def alone(**models: str) -> dict[str, str]:
    """Return a repository of the ensemble `e` of one step, `m`."""
    return {"e": ensemble(step("m", {"IN": "IN"}, {"OUT": "OUT"})), "m": PYTHON, **models}


def write(folder: Path, models: dict[str, str]) -> Path:
    for name, config in models.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(config)
    return folder


class Adopt:
    """The command, run in this process."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def text(self, models: dict[str, str], *arguments: str) -> str:
        status = adopted(str(write(self.folder, models)), *arguments)
        out, err = self.capsys.readouterr()
        assert status == 0, err
        return str(out)

    def answers(self, models: dict[str, str], *arguments: str) -> dict[str, Any]:
        answers: dict[str, Any] = yaml.safe_load(self.text(models, *arguments))
        return answers

    def fields(self, config: str) -> dict[str, Any]:
        """Return what a model's config gives its step, beside the names and tensors."""
        step = self.answers(alone(m=config))["steps"][0]
        assert step["adopted"]
        known = ("name", "inputs", "outputs", "adopted")
        return {key: step[key] for key in step if key not in known}

    def refusal(self, models: dict[str, str], *arguments: str) -> str:
        status = adopted(str(write(self.folder, models)), *arguments)
        out, err = self.capsys.readouterr()
        assert (status, out, err.count("\n")) == (1, "", 1), err
        return str(err).rstrip("\n")


@pytest.fixture
def adopt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Adopt:
    return Adopt(tmp_path / "repository", capsys)
