"""The starting pipeline speech-activity hears as the package does that its model is from."""

from __future__ import annotations

import json
import re
import sys
import wave
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import PIPELINES, ROOT, Generate, Project, run, serve, succeed

pytestmark = pytest.mark.slow

SPEECH = ROOT / "examples/speech-activity/samples/speech.wav"
PACKAGE = ("silero-vad==6.2.3", "packaging")  # the rest of what it imports is here
STREAMS, CHUNKS = 50, 40


@pytest.fixture
def project(generate: Generate) -> Project:
    return generate(**PIPELINES["speech activity"])


def test_it_passes_its_own_tests(project: Project) -> None:
    printed = succeed(project.make("test", "STRICT=1", PYTEST_ADDOPTS="-v"))
    for protocol in ("grpc", "http"):
        for test in (
            f"test_the_pipeline_answers_as_the_original[{protocol}-speech]",
            f"test_a_stream_is_heard_as_by_the_package[{protocol}-speech.wav]",
            f"test_streams_at_once_are_heard_as_each_alone[{protocol}]",
        ):
            assert f"{test} PASSED" in printed


def test_fifty_streams_at_once_are_heard_as_by_the_package(
    project: Project, tmp_path: Path
) -> None:
    """Each begins at another place of the recording, and half of them in noise."""
    recordings, packages, heard = tmp_path / "wav", tmp_path / "p", tmp_path / "heard.json"
    recordings.mkdir()
    with wave.open(str(SPEECH)) as file:
        sound = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    noise = np.random.default_rng(0).normal(0, 800, CHUNKS * 512)
    for stream in range(STREAMS):
        begun = np.roll(sound, -997 * stream)[: CHUNKS * 512] + noise * (stream % 2)
        with wave.open(str(recordings / f"{stream}.wav"), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes(begun.clip(-(2**15), 2**15 - 1).astype(np.int16).tobytes())
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", packages)
    succeed(run(*map(str, pip), *PACKAGE, cwd=tmp_path))
    record = (sys.executable, "tests/reference/original.py", str(recordings), str(heard))
    succeed(run(*record, cwd=project.path, PYTHONPATH=str(packages)))
    original: dict[str, Any] = json.loads(heard.read_text())
    assert sum(len(stream["EVENTS"]) for stream in original.values()) > STREAMS
    succeed(project.make("repository"))
    with serve(project) as server, project.client(server.urls["grpc"]) as client:

        def hear(stream: int) -> tuple[list[float], list[list[Any]]]:
            with wave.open(str(recordings / f"{stream}.wav")) as file:
                chunks = [file.readframes(512) for _ in range(CHUNKS)]
            answers = [
                client.infer(
                    {"AUDIO": np.frombuffer(chunk, np.int16)[None]},
                    stream + 1,
                    start=i == 0,
                    end=i == CHUNKS - 1,
                )
                for i, chunk in enumerate(chunks)
            ]
            events = [[each["EVENT"].item().decode(), each["AT"].item()] for each in answers]
            return [each["PROBABILITY"].item() for each in answers], [e for e in events if e[0]]

        with ThreadPoolExecutor(STREAMS) as threads:
            for stream, (probabilities, events) in enumerate(threads.map(hear, range(STREAMS))):
                wanted = original[f"{stream}.wav"]
                np.testing.assert_allclose(probabilities, wanted["PROBABILITY"], rtol=0, atol=1e-4)
                known, more = wanted["EVENTS"], [["end", CHUNKS * 512]]  # with the stream
                assert events in (known, known + more), stream


@pytest.mark.parametrize("given", ["samples/speech.wav", "< <(tail -c +45 samples/speech.wav)"])
def test_a_recording_and_raw_sound_are_listened_to(project: Project, given: str) -> None:
    succeed(project.make("repository"))
    with serve(project) as server:
        command = f"PYTHONPATH=src {sys.executable} samples/listen.py {given}"
        printed = succeed(project.run("bash", "-c", command, TRITON_URL=server.urls["http"]))
    events = [line.split() for line in printed.splitlines()]
    assert [(at, event) for at, _, event in events] == [
        ("0.48", "start"),
        ("2.30", "end"),
        ("3.01", "start"),
        ("5.66", "end"),
    ]


def test_what_cannot_be_listened_to_is_one_line(project: Project, tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "cd.wav"), "wb") as file:
        file.setparams((2, 2, 44_100, 0, "NONE", ""))
    for path, said in {
        tmp_path / "cd.wav": "has another format; convert it: ffmpeg -i .* -ar 16000 -ac 1",
        tmp_path / "none.wav": "No such file",
        ROOT / "README.md": "does not start with RIFF",
        SPEECH: "Connection refused",
    }.items():
        command = f"PYTHONPATH=src {sys.executable} samples/listen.py {path}"
        done = project.run("bash", "-c", command, TRITON_URL="http://127.0.0.1:9")
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert line.startswith("listen.py: ")
        assert re.search(said, line), line
