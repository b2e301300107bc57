"""The starting pipeline speech-to-text: recordings and streams on a real Triton, and files that are not sound."""

from __future__ import annotations

import re
import sys
import wave
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import soundfile  # type: ignore[import-untyped]
from gateway_service import gateway
from support import PIPELINES, ROOT, Generate, Project, serve, succeed

pytestmark = pytest.mark.slow

SAMPLES = ROOT / "examples/speech-to-text/samples"
REPORT = "Please send the report to the whole team before Friday."
WEATHER = "The weather was cold, but the children played outside."


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    return generate.complete(**PIPELINES["speech to text"], extras=["gateway"])


def read(name: str) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    with wave.open(str(SAMPLES / name)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), np.int16)


def write(kind: str, channels: int = 1) -> bytes:
    """Return two sentences with a pause of a second between them, as a file."""
    sound = np.concatenate([read("report.wav"), np.zeros(16_000, np.int16), read("weather.wav")])
    file = BytesIO()
    soundfile.write(file, np.stack([sound] * channels, axis=1), 16_000, format=kind)
    return file.getvalue()


def test_it_passes_its_own_tests(project: Project) -> None:
    printed = succeed(project.make("test", "STRICT=1", PYTEST_ADDOPTS="-v"))
    for protocol in ("grpc", "http"):
        part = f"written_as_by_the_package[{protocol}-newspaper.wav] PASSED"
        assert part in printed
        assert f"test_few_words_are_wrong[{protocol}] PASSED" in printed


def test_files_of_several_kinds_are_written_and_others_refused(
    project: Project, tmp_path: Path
) -> None:
    recording, empty = tmp_path / "talk.flac", tmp_path / "none.wav"
    recording.write_bytes(write("FLAC"))
    soundfile.write(empty, np.zeros(0, np.int16), 16_000)
    with serve(project) as server, gateway(project, server.urls["http"]) as service:
        for content in (write("WAV"), write("FLAC", channels=2), write("MP3")):
            [texts] = service.upload(("AUDIO", "talk", content)).json()["TEXT"]
            assert texts == [REPORT, WEATHER]
        for content, said in {
            b"a text": "its 6 bytes are not a WAV",
            empty.read_bytes(): "lacks samples",
        }.items():
            answer = service.upload(("AUDIO", "talk", content))
            assert answer.status == 400
            assert said in answer.json()["error"]
        for path, begun in {
            recording: r" +0\.\d+ +3\.\d+  Please",
            empty: "transcribe.py: .*lacks samples",
        }.items():
            command = f"PYTHONPATH=src {sys.executable} samples/transcribe.py {path} 2>&1"
            done = project.run("bash", "-c", command, TRITON_URL=server.urls["http"])
            assert re.match(begun, done.stdout), done.stdout
