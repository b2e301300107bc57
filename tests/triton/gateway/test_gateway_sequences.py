"""A request of the gateway to a pipeline with sequences: its rows, or the chunks of a WAV file, are one sequence."""

from __future__ import annotations

import io
import json
import re
import sys
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from gateway_service import Service, gateway
from support import Generate, Project, Server, serve, step, succeed

ADD_UP = """
import numpy as np

from triton_step import InvalidRequest


class Step:
    def __init__(self, context):
        self._sums = {}

    def __call__(self, position, /, AUDIO):
        if AUDIO.min() < 0:
            raise InvalidRequest("AUDIO: below 0")
        if position.start:
            if AUDIO.max() == 9:
                raise InvalidRequest("AUDIO: 9 begins no sequence")
            self._sums[position.id] = 0
        self._sums[position.id] += AUDIO.sum(dtype="int64")
        total = self._sums.pop(position.id) if position.end else self._sums[position.id]
        return {"TOTAL": np.array([[total]])}
"""


def add_up(generate: Generate, code: str, **more: bool) -> Project:
    options: dict[str, Any] = {"sequence": {"direct": {}}, "max_batch_size": 8, **more}
    project = generate(
        tensors={"AUDIO": "INT16[4]", "TOTAL": "INT64[1]"},
        steps=[step("add_up", ["AUDIO"], ["TOTAL"], **options)],
        max_batch_size=8,
        extras=["gateway"],
    )
    (project / "steps/add_up.py").write_text(code)
    return project


@pytest.fixture(scope="module")
def server(generate: Generate) -> Iterator[Server]:
    with serve(add_up(generate, ADD_UP)) as server:
        yield server


@pytest.fixture(scope="module")
def streaming(generate: Generate) -> Iterator[Server]:
    with serve(add_up(generate, ADD_UP.replace("return", "yield"), decoupled=True)) as server:
        yield server


@pytest.fixture(scope="module", params=["http", "grpc"])
def service(server: Server, request: pytest.FixtureRequest) -> Iterator[Service]:
    url = server.urls[request.param]
    with gateway(server.project, url, GATEWAY_SEQUENCE_ROWS="70") as service:
        yield service


def recording(samples: int, channels: int = 1) -> bytes:
    """Return a WAV file of samples that are 1."""
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((channels, 2, 16_000, 0, "NONE", ""))
        file.writeframes(b"\1\0" * samples * channels)
    return content.getvalue()


def sums(service: Service, rows: int) -> list[int]:
    answer = service.post({"AUDIO": [[1, 0, 0, 0]] * rows})
    assert answer.status == 200, answer.content
    return [total for [total] in answer.json()["TOTAL"]]


def test_the_rows_of_a_request_are_one_sequence(service: Service) -> None:
    assert sums(service, 1) == [1]
    assert sums(service, 70) == [*range(1, 71)]
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(sums, [service] * 4, [9] * 4)] == [[*range(1, 10)]] * 4


@pytest.mark.parametrize(
    ("kind", "protocol"), [("server", "http"), ("server", "grpc"), ("streaming", "grpc")]
)
def test_the_rows_of_a_sample_are_one_sequence(
    kind: str, protocol: str, request: pytest.FixtureRequest
) -> None:
    """`infer`, `test`, `golden`, `bench`, `step` and the health check send them as the gateway does."""
    server: Server = request.getfixturevalue(kind)
    project, url = server.project, server.urls[protocol]
    sample = {"inputs": {"AUDIO": [[1, 0, 0, 0], [2, 0, 0, 0], [9, 0, 0, 0]]}}
    (project / "samples/one.json").write_text(json.dumps(sample))
    printed = succeed(project.make("infer", TRITON_URL=url))
    assert "one:\n  TOTAL: 1\n  TOTAL: 3\n  TOTAL: 12\n" in printed
    succeed(project.make("golden", TRITON_URL=url))
    golden = json.loads((project / "tests/golden.json").read_text())
    totals = [{"TOTAL": [[1], [3], [12]]}]
    if kind == "streaming":
        totals = [{"TOTAL": [total]} for total in totals[0]["TOTAL"]]
    assert golden["answers"]["one"] == totals
    printed = succeed(project.make("step", "NAME=add_up", "SAMPLE=one"))
    assert re.findall(r"TOTAL int64\[1, 1\]\n +(\d+)", printed) == ["1", "3", "12"]
    health = (sys.executable, "-m", "triton_ensemble.serve.container.health")
    succeed(project.run(*health, "--url", server.urls["http"]))
    succeed(project.run(sys.executable, "-m", "pytest", "-q", "tests/test_live.py", TRITON_URL=url))
    if protocol == "grpc":
        printed = succeed(
            project.make("bench", "ARGS=--seconds 0.3 --concurrency 1 3", TRITON_URL=url)
        )
        assert re.search(r"^ +3( +\S+)+ +0$", printed, re.MULTILINE), printed


def test_the_rows_of_a_request_to_a_stream_are_one_sequence(streaming: Server) -> None:
    with gateway(streaming.project, streaming.urls["grpc"]) as service:
        answer = service.post({"AUDIO": [[1, 0, 0, 0], [2, 0, 0, 0]]})
    assert re.findall(rb"\[\[(\d+)\]\]", answer.content) == [b"1", b"3"]


def test_the_chunks_of_a_recording_are_rows(service: Service) -> None:
    totals = {"TOTAL": [[4], [8], [10]]}
    assert service.upload(("AUDIO", "a.wav", recording(10))).json() == totals
    assert service.post(recording(10), Content_Type="audio/wav").json() == totals
    mixed = service.upload(("AUDIO", "a.wav", recording(4)), ("AUDIO", "", b"[1, 1, 1, 0]"))
    assert mixed.json() == {"TOTAL": [[4], [7]]}


NONE = "AUDIO: is not a WAV file of PCM samples"
OTHER_FILES = {
    b"": NONE,
    b"RIFF": NONE,
    recording(8)[:40]: NONE,
    b"[1, 1, 1, 1]": NONE,
    recording(8)[:16] + b"\xff" + recording(8)[17:]: NONE,  # a chunk that is longer than the file
    recording(8)[:45]: "AUDIO: the WAV file lacks samples",
    recording(0): "AUDIO: the WAV file lacks samples",
    recording(8, 2): "AUDIO: has channels: 2, bits a sample: 16; send one channel of 16 bits",
}


@pytest.mark.parametrize(("content", "reason"), OTHER_FILES.items())
def test_another_file_is_refused(service: Service, content: bytes, reason: str) -> None:
    answer = service.post(content, Content_Type="audio/wav")
    assert (answer.status, answer.json()["error"]) == (400, reason)


def test_a_part_that_is_nothing_of_both_is_refused(service: Service) -> None:
    answer = service.upload(("AUDIO", "a.txt", b"text"))
    assert answer.status == 400
    assert answer.json()["error"].startswith("AUDIO: is neither JSON nor a WAV file: ")


def test_a_row_that_is_refused_ends_it(service: Service) -> None:
    rows = [[1, 0, 0, 0], [-1, 0, 0, 0], [1, 0, 0, 0]]
    answer = service.post({"AUDIO": rows})
    assert (answer.status, answer.json()["row"]) == (400, 1)
    assert answer.json()["error"] == "row 1: in ensemble 'my_pipeline', step add_up: AUDIO: below 0"
    assert sums(service, 3) == [1, 2, 3]


def test_there_may_be_as_many_rows_as_its_owner_says(service: Service) -> None:
    for answer in (
        service.post({"AUDIO": [[1, 0, 0, 0]] * 71}),
        service.post(recording(281), Content_Type="audio/wav"),
        service.upload(("AUDIO", "a.wav", recording(281))),
    ):
        assert answer.status == 413
        assert answer.json()["error"] == "71 rows; a request may have 70"
