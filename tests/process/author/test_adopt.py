"""The command adopt: an existing model repository -> a pipeline.yml that generates equal configs, or the reason why Triton would refuse it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import copier
import pytest
import yaml
from adopt_support import (
    CORPUS,
    IN,
    Adopt,
    adopt,  # noqa: F401
    adopted,
    alone,
    write,
)
from copier.errors import UserMessageError
from support import ROOT, run, succeed

from triton_ensemble.author.adopt import declared_by_code


def test_as_a_command(tmp_path: Path) -> None:
    repository = write(tmp_path / "repository", alone())
    command = (sys.executable, "-m", "triton_ensemble", "adopt", str(repository))
    assert "project_name: e" in succeed(run(*command, cwd=ROOT, PYTHONPATH="src"))


DECLARES = """\
import near
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config: pb_utils.ModelConfig):
        print("completes", config.as_dict()["name"])
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [4], "optional": True})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [4]})
        config.set_max_batch_size(16)
        config.set_dynamic_batching()
        config.set_model_transaction_policy({"decoupled": True})
        return config

    def execute(self, requests):
        return []
"""


def write_by_code(folder: Path, code: str, config: str = "") -> None:
    """Write the ensemble `e` and `m`, whose code declares what its config does not."""
    write(folder, alone(e=f"max_batch_size: 16 {alone()['e']}", m=config))
    if not config:
        (folder / "m/config.pbtxt").unlink()
    (folder / "m/1/model.py").write_text(code)
    (folder / "m/1/near.py").touch()


@pytest.mark.parametrize(
    "config", ["", 'backend: "python"', f'backend: "python" {IN[:-1]} optional: true }}']
)
def test_what_the_code_of_a_model_declares_is_adopted(config: str, adopt: Adopt) -> None:
    write_by_code(adopt.folder, DECLARES, config)
    before = sorted(adopt.folder.rglob("*"))
    answers = adopt.answers({}, "--run-code")
    assert answers["max_batch_size"] == 16
    assert answers["steps"] == [
        {
            "name": "m",
            "backend": "python",
            "inputs": {"IN": {"tensor": "IN", "optional": True}},
            "outputs": ["OUT"],
            "adopted": True,
            "instances": "none",
            "decoupled": True,
        }
    ]
    assert sorted(adopt.folder.rglob("*")) == before


FAILS = {
    "import nowhere": "ModuleNotFoundError: No module named 'nowhere'",
    "class TritonPythonModel: auto_complete_config = 1": "TypeError: 'int' object is not callable",
    "import time; time.sleep(60)": "it takes longer than 0.5 s",
    "import os; os._exit(3)": "exit status 3",
    "import os; os._exit(0)": "JSONDecodeError: ",
    DECLARES.replace("TYPE_FP32", "FLOAT"): "ParseError: ",
    DECLARES.replace("[4]})", "[5]})").replace("OUT", "IN").replace("output", "input"): (
        "ValueError: IN differs from its config"
    ),
}


@pytest.mark.parametrize(("code", "reason"), FAILS.items(), ids=FAILS.values())
def test_code_that_can_not_be_asked_is_named(
    code: str, reason: str, adopt: Adopt, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in code:
        monkeypatch.setattr(declared_by_code, "TIMEOUT_S", 0.5)
    write_by_code(adopt.folder, f"{code} # auto_complete_config", 'backend: "python"')
    line = adopt.refusal({}, "--run-code")
    what = "declares no inputs or no outputs; auto_complete_config of 1/model.py fails here"
    assert line.startswith(f"m/config.pbtxt: {what}: {reason}")
    assert line.endswith("; install what it imports, or declare them in config.pbtxt")


def test_code_of_a_model_that_is_not_adopted_may_fail(adopt: Adopt) -> None:
    write(adopt.folder, alone(other='backend: "python"'))
    (adopt.folder / "other/1/model.py").write_text("import auto_complete_config")
    assert adopt.answers({}, "--run-code")["project_name"] == "e"


def test_code_that_declares_nothing(adopt: Adopt) -> None:
    write_by_code(adopt.folder, "class TritonPythonModel: ... # no auto_complete_config")
    assert "is mapping to non-existing input IN in model m; it has none" in adopt.refusal(
        {}, "--run-code"
    )


class Commands:
    """The commands of the corpus's script, run in this process instead of one of their own."""

    TimeoutExpired = subprocess.TimeoutExpired

    def __init__(self, template: Path) -> None:
        self.template = template

    def run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = adopted(*command[4:]) if "adopt" in command else self.copy(command)
        return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())

    def copy(self, command: list[str]) -> int:
        """Copy the template with the answers of a file."""
        answers = yaml.safe_load(Path(command[command.index("--data-file") + 1]).read_text())
        try:
            copier.run_copy(str(self.template), command[-1], answers, defaults=True, quiet=True)
        except UserMessageError as error:
            print(error, file=sys.stderr)
            return 1
        return 0


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus of public ensembles")
def test_the_corpus_of_public_ensembles(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is measured with the commands in processes of their own."""
    spec = importlib.util.spec_from_file_location("measure", CORPUS / "measure.py")
    assert spec is not None
    assert spec.loader is not None
    measure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(measure)
    records = json.loads((CORPUS / "public-ensembles.json").read_text())
    verdicts = [measure.measure(records[0], ROOT)]
    assert verdicts == [("equal", "")]
    monkeypatch.setattr(measure, "subprocess", Commands(template))
    verdicts += [measure.measure(record, ROOT) for record in records[1:]]
    bad = {
        record["id"]: verdict
        for record, verdict in zip(records, verdicts, strict=True)
        if verdict[0] != "equal" and not (verdict[0] == "refused" and record.get("triton_refuses"))
    }
    assert len(records) - len(bad) >= 49, bad
