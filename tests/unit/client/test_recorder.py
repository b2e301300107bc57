"""The recorder of a project's client, without a server: what a file has, its limits, and a disk that fails."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_support import package
from support import Generate, Project, step

from triton_ensemble.facts.project import Project as Facts
from triton_ensemble.testing.recordings import Recordings

ROW = {"A": np.array([[1.5, 2.0]], np.float32)}
SECRET = {"SECRET": np.array([[b"key"]], object)}
ANSWER = {"B": np.array([[3.0]], np.float32)}


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    private = {"type": "STRING", "dims": [1], "private": True, "optional": True}
    return generate(
        project_name="recording",
        max_batch_size=4,
        tensors={"A": "FP32[2]", "SECRET": private, "B": "FP32[1]"},
        steps=[step("work", ["A", "SECRET"], ["B"])],
    )


@pytest.fixture(scope="module")
def module(project: Project) -> Iterator[Any]:
    with package(project) as imported:
        yield importlib.import_module(f"{imported.__name__}.runtime.recorder")


def record(module: Any, folder: Path, *inputs: Any, **limits: float) -> Any:
    """Record requests in a folder, wait for its thread, and return the recorder."""
    made = module.Recorder(str(folder), {**module.LIMITS, **limits})
    for each in inputs:
        if exchange := made.begin(each, {"request_id": "id-of-a-caller"}):
            each["A"] += 1  # an array of the caller
            exchange.end(ANSWER)
    made._thread.shutdown()
    return made


def read(project: Project, folder: Path) -> tuple[list[Any], dict[str, int]]:
    recordings = Recordings(Facts.load(project.path), folder)
    return list(recordings.calls()), dict(recordings.left_out)


def rows(*values: float) -> list[Any]:
    return [{"A": np.full((1, 2), value, np.float32)} for value in values]


def test_a_file_is_for_its_owner_alone(module: Any, project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "in" / "it"
    record(module, folder, *rows(7))
    [file] = folder.iterdir()
    assert (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert b"id-of" not in file.read_bytes()
    [[sent]], _ = read(project, folder)
    assert (sent.inputs["A"].tolist(), sent.answers[0]["B"].item()) == ([[7, 7]], 3)


def test_a_private_input_is_left_out(module: Any, project: Project, tmp_path: Path) -> None:
    record(module, tmp_path, {**rows(1)[0], **SECRET})
    [file] = tmp_path.iterdir()
    assert b"key" not in file.read_bytes()
    reason = "without SECRET, which is private and not recorded"
    assert read(project, tmp_path) == ([], {reason: 1})


CUT = "cut off, or not a recording"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: content[:-1], CUT),
        (lambda content: content[:40], CUT),
        (lambda content: content + b"x", CUT),
        (lambda _: b"[]\n", CUT),
        (lambda content: content.replace(b'"A"', b'"C"'), "C is not an input of recording; its"),
        (lambda content: content.replace(b"recording", b"x"), "of the pipeline x, not of recording"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_left_out(
    module: Any, project: Project, tmp_path: Path, damage: Any, reason: str
) -> None:
    record(module, tmp_path, *rows(1))
    [file] = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    calls, [found] = read(project, tmp_path)
    assert not calls
    assert found.startswith(reason)


def test_the_oldest_files_go(module: Any, project: Project, tmp_path: Path) -> None:
    record(module, tmp_path, *rows(*range(50)), FILES=10)
    calls, _ = read(project, tmp_path)
    assert [call[0].inputs["A"][0, 0] for call in calls] == [*range(42, 50)]
    size = next(tmp_path.iterdir()).stat().st_size
    record(module, tmp_path, *rows(*range(50)), BYTES=5 * size)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 5 * size


def test_a_large_request_is_left_out_and_counted(
    module: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    large = {"A": np.zeros((4, 2), np.float32)}
    made = record(module, tmp_path, large, large, large, *rows(1), LARGEST=16)
    assert (made.left_out, len([*tmp_path.iterdir()])) == ({"too large to record": 3}, 1)
    assert len(caplog.messages) == 2


def test_a_rate_is_kept_and_a_sequence_stays_whole(module: Any, tmp_path: Path) -> None:
    made = record(module, tmp_path, *rows(*range(200)), RATE=0.2)
    assert 10 < len([*tmp_path.iterdir()]) < 80
    place = {"sequence_start": True, "sequence_end": False}
    drawn = [[made.begin(ROW, {"sequence_id": n, **place}) for _ in range(5)] for n in range(1, 40)]
    assert {len([each for each in of if each]) for of in drawn} == {0, 5}


def test_a_disk_that_fails_is_one_line(
    module: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "rename", fail)
    record(module, tmp_path, *rows(1, 2, 3))
    assert caplog.messages == [f"{tmp_path}: No space left on device; what follows is not recorded"]
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("name", "text"), [("RATE", "2"), ("FILES", "many"), ("BYTES", "nan")])
def test_a_wrong_limit_is_named(module: Any, name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^TRITON_RECORD_{name} is {text}; write a .*, above 0$"):
        module.read_limits({f"TRITON_RECORD_{name}": text})
