"""Model files appear whole or not at all, whatever happens to the script that makes them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from model_bytes import SMALLEST
from support import SOURCES

from triton_ensemble.serve import RepositoryError, model_files

# As scikit-learn: Ctrl-C ends the training, and what is trained so far is the result.
SWALLOWS = """\
import signal

def build(path):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        path.write_text("half")
"""
WEIGHTS = """\
def build(path):
    path.write_text("model")
    (path.parent / "zweights").write_text("weights")
"""
SLEEPS = """\
import time

def build(path):
    path.write_text("half")
    time.sleep(60)
"""
MAKE = "import sys; from pathlib import Path; from triton_ensemble.serve import model_files; {}"


# By format; a script may write what the step's backend read before.
BEGINS = dict(zip(("ONNX", "TorchScript", "OpenVINO's XML"), SMALLEST.values(), strict=False))
WRITES = "def build(path):\n    path.write_bytes({!r})\n"


@pytest.fixture
def script(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a script of a project, as models/made.py."""
    for name in ("models", "models.made"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / "made.py"
    path.write_text(request.param)
    return path


def made(folder: Path) -> set[str]:
    return {path.name for path in (folder / "m" / "1").iterdir()}


@pytest.mark.parametrize("script", [SWALLOWS], indirect=True)
def test_a_script_that_takes_ctrl_c_for_its_end_makes_nothing(script: Path, tmp_path: Path) -> None:
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        list(model_files.make(script, tmp_path / "m/1/model.onnx", tmp_path))
    assert made(tmp_path) == set()
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("script", [WEIGHTS], indirect=True)
def test_the_model_file_comes_after_what_it_needs(script: Path, tmp_path: Path) -> None:
    files = model_files.make(script, tmp_path / "m/1/model.onnx", tmp_path)
    assert [path.name for path in files] == ["zweights", "model.onnx"]


@pytest.mark.parametrize("script", [WEIGHTS], indirect=True)
def test_a_file_is_told_of_before_it_is_there(script: Path, tmp_path: Path) -> None:
    """So that one that could not be recorded is not taken for the owner's."""
    for place in model_files.make(script, tmp_path / "m/1/model.onnx", tmp_path):
        assert not place.exists()
    assert made(tmp_path) == {"model.onnx", "zweights"}


@pytest.mark.parametrize("script", [SLEEPS], indirect=True)
def test_what_a_killed_build_left_goes_with_the_next(script: Path, tmp_path: Path) -> None:
    code = MAKE.format(
        f"list(model_files.make(*map(Path, {[*map(str, (script, tmp_path / 'm/1/model.onnx', tmp_path))]})))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(SOURCES)}
    )
    while not list(tmp_path.glob("m/1/half-*/model.onnx")):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    script.write_text(WEIGHTS)
    list(model_files.make(script, tmp_path / "m/1/model.onnx", tmp_path))
    assert made(tmp_path) == {"model.onnx", "zweights"}


@pytest.mark.parametrize(
    ("script", "wrote", "file", "wanted"),
    [
        (WRITES.format(BEGINS[wrote]), wrote, file, wanted)
        for wrote in BEGINS
        for file, wanted in zip(("m.onnx", "m.pt", "m.xml"), BEGINS, strict=True)
        if wrote != wanted
    ],
    indirect=["script"],
)
def test_a_file_of_another_backends_format_is_refused(
    script: Path, wrote: str, file: str, wanted: str, tmp_path: Path
) -> None:
    line = f"models/made.py: build(path) wrote {wrote} into {file}; write {wanted}, as the backend needs"
    with pytest.raises(RepositoryError, match=re.escape(line)):
        list(model_files.make(script, tmp_path / "m" / "1" / file, tmp_path))
    assert made(tmp_path) == set()


@pytest.mark.parametrize(
    ("script", "file"),
    [
        (WRITES.format(begin), file)
        for begin, file in zip(BEGINS.values(), ("m.onnx", "m.pt", "m.xml"), strict=True)
    ]
    + [(WRITES.format(begin), "m.bin") for begin in BEGINS.values()],
    indirect=["script"],
)
def test_a_file_of_its_format_is_made(script: Path, file: str, tmp_path: Path) -> None:
    list(model_files.make(script, tmp_path / "m" / "1" / file, tmp_path))
    assert made(tmp_path) == {file}
