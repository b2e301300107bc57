"""Runs a Python model without a server, in a process of its own.

`with Harness(version_folder) as model: model.execute([{"IN": rows}])`
"""

from __future__ import annotations

import json
import os
import pickle
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

from google.protobuf import json_format, text_format  # type: ignore[import-untyped]

from triton_ensemble.adapter.seams import read_manifest
from triton_ensemble.facts.client import Arrays
from triton_ensemble.facts.config import parse
from triton_ensemble.facts.config.message import format_json
from triton_ensemble.testing import fake_triton

PACKAGES = Path(__file__).parents[2]  # where this package is imported from


class StepRefusal(str):
    """The text of an error.

    It is `invalid` if the error is the client's: the step has raised InvalidRequest.
    """

    invalid = False


Answer = Arrays | StepRefusal


class HarnessError(RuntimeError):
    """Raised if the model can't be loaded, did not answer in time, or ended its process."""


class Harness:
    """The model of a version folder, which `make repository` has completed.

    `start_timeout` and `timeout` (seconds) are for the start, and for each call of `execute`.
    """

    def __init__(self, folder: Path, timeout: float = 30.0, start_timeout: float = 60.0) -> None:
        self._folder, self._timeout, self._start_timeout = folder.resolve(), timeout, start_timeout

    def __enter__(self) -> Harness:
        self._log, self._printed = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        printed = self._printed.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-m", fake_triton.__name__, str(self._folder), str(printed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=PACKAGES,
            pass_fds=[printed],
        )
        try:
            config = config_json(self._folder.parent / "config.pbtxt")
            if error := self._ask(config, self._start_timeout):
                raise HarnessError(f"can't be loaded: {error}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()
        self._printed.close()

    def execute(self, requests: list[Arrays]) -> list[Answer]:
        """Return the answers to requests that arrive at once: arrays by name, or the text of the error.

        A decoupled model's answers follow each other, request after request.
        """
        replies = self._ask(requests, self._timeout)
        answers = [one for each in replies for one in (each if isinstance(each, list) else [each])]
        return [_refusal(*one) if isinstance(one, tuple) else one for one in answers]

    def shows_memory(self) -> bool:
        """Return whether this system tells what a process holds in memory, as Linux does."""
        return self._statm().exists()

    def memory_bytes(self) -> int:
        """Return what the model's process holds in memory."""
        return int(self._statm().read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def _statm(self) -> Path:
        return Path(f"/proc/{self._process.pid}/statm")

    def log(self) -> str:
        """Return what the model wrote to Triton's log."""
        return _content(self._log)

    def read_stdout(self) -> str:
        """Return what the model wrote to stdout."""
        return _content(self._printed)

    def _ask(self, message: object, timeout: float) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump(message, self._process.stdin)
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], timeout)[0]:
                raise HarnessError(f"gave no answer in {timeout:g} s")
            return pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError):
            code = self._process.wait()
            raise HarnessError(f"ended its process with exit code {code}") from None


def _refusal(text: str, code: int) -> StepRefusal:
    refused = StepRefusal(text)
    refused.invalid = code == fake_triton.TritonError.INVALID_ARG
    return refused


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def standalone(version: Path, step: str, folder: Path) -> Path:
    """Copy a step that shares a model to `folder`, as its own model, and return its version folder."""
    copy = folder / step / version.name
    shutil.copytree(version, copy)
    manifest, _ = read_manifest(version)
    [own] = [each for each in manifest["steps"] if each["name"] == step]
    (copy / "step.json").write_text(json.dumps(own))
    config = parse((version.parent / "config.pbtxt").read_text())
    for side in ("input", "output"):
        config.ClearField(side)
    tensors = {"name": step, "input": own["input"], "output": own["output"]}
    json_format.ParseDict(tensors, config, ignore_unknown_fields=True)
    (copy.parent / "config.pbtxt").write_text(text_format.MessageToString(config))
    return copy


def config_json(path: Path) -> str:
    """Return a config.pbtxt as the JSON that Triton hands to a model."""
    return format_json(parse(path.read_text()))
