"""Recorded traffic of the client and the gateway: `make samples` and `make replay`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from client_support import Served, serving
from gateway_service import gateway, wait_until
from step_code import step_code
from support import NOWHERE, Generate, Project, call, step

PIPELINE = {
    "project_name": "recorded",
    "extras": ["gateway"],
    "max_batch_size": 4,
    "tensors": {"TEXT": "STRING[1]", "X": "FP32[2]", "Y": "FP32[1]"},
    "steps": [step("work", ["TEXT", "X"], ["Y"])],
}
WORK = step_code(
    """
def __call__(self, TEXT, X):
    if X.min() < 0:
        raise InvalidRequest("X: below 0")
    return {"Y": X.sum(axis=1, keepdims=True)}
""",
    "from triton_step import InvalidRequest",
)
LENGTHS = (1, 2, 3, 300)


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    made = generate(**PIPELINE)
    (made / "steps/work.py").write_text(WORK)
    return made


@pytest.fixture(scope="module")
def server(project: Project) -> Iterator[Served]:
    with serving(project) as served:
        yield served


@pytest.fixture(scope="module")
def folder(server: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the recordings of a client: five requests, of which one comes again. A refused one is not recorded."""
    folder = tmp_path_factory.mktemp("recordings")
    options = {"record": str(folder), "headers": {"authorization": "a-key"}}
    with pytest.raises(server.module.InvalidInput):
        server.call("http", "recorded", ["a"], [[-1, 0]], options=options)
    for length in (*LENGTHS, 300):
        server.call("grpc", "recorded", ["a" * length], [[length, 0.5]], options=options)
    wait_for_files(folder, 5)
    return folder


def wait_for_files(folder: Path, count: int) -> list[Path]:
    wait_until(lambda: len([*folder.glob("*.exchange")]) >= count)
    return sorted(folder.glob("*.exchange"))


def test_samples_cover_the_lengths_of_texts(project: Project, folder: Path) -> None:
    assert not any(b"a-key" in file.read_bytes() for file in folder.iterdir())
    said = call(project, "samples", "--from", str(folder), "--most=2").out.splitlines()
    assert said[-2:] == [
        "5 recordings, 4 different requests",
        "2 new samples; 2 of 3 shapes and text lengths; a larger N covers more",
    ]
    said = call(project, "samples", "--from", str(folder)).out.splitlines()
    assert said[-2:] == [
        "5 recordings, 4 different requests, of which samples/ has 2",
        "2 new samples; 3 of 3 shapes and text lengths",
    ]
    files = [*(project / "samples").glob("recorded-*.json")]
    texts = {json.loads(file.read_text())["inputs"]["TEXT"][0][0] for file in files}
    golden = json.loads((project / "tests/golden.json").read_text())["answers"]
    assert texts == {"a" * length for length in LENGTHS}
    assert golden.keys() == {file.stem for file in files}
    assert [{"Y": [[300.5]]}] in golden.values()


def test_a_replay_says_what_another_model_answers(
    project: Project, server: Served, folder: Path
) -> None:
    replay = ("replay", "--from", str(folder), "--against")
    said = call(project, *replay, server.urls["http"], TRITON_RECORD=str(folder / "not"))
    assert said.out.splitlines()[-1] == "replay: 0 of 5 requests differ"
    assert not (folder / "not").exists()
    work, golden = project / "steps/work.py", project / "tests/golden.json"
    work.write_text(WORK.replace("X.sum", "0.5 + X.sum").replace("X.min() < 0", "X.max() == 2"))
    with serving(project) as changed:
        said = call(project, *replay, changed.urls["grpc"])
        assert said.status == 1
        assert "exchange: Y[0, 0]: expected 1.5, got 2.0\n" in said.out
        assert re.search(r"exchange: fails: .*X: below 0\n", said.out)
        assert said.out.endswith(
            "Y: 4 of 4 differ; the largest difference is 0.5\nreplay: 5 of 5 requests differ\n"
        )
        golden.write_text('{"tolerances": {"Y": {"atol": 0.6}}}')
        assert "Y: 0 of 4 differ; the" in call(project, *replay, changed.urls["http"]).out
    golden.unlink()
    work.write_text(WORK)


def test_a_gateway_records_requests_as_callers_send_them(server: Served, tmp_path: Path) -> None:
    bodies = [
        {"TEXT": [["a"]] * rows, "X": [[k, -(k == 3)]] * rows}
        for k in range(8)
        for rows in (1, 2, 6)
    ]
    with (
        gateway(server.project, server.urls["http"], f"--record={tmp_path}") as service,
        ThreadPoolExecutor(8) as pool,
    ):
        answers = [*pool.map(lambda body: service.post(body, X_API_Key="a-key").status, bodies)]
        assert answers.count(200) >= 21
        files = wait_for_files(tmp_path, 21)
    assert not any(b"a-key" in file.read_bytes() for file in files)
    said = call(server.project, "replay", "--from", str(tmp_path), "--against", server.urls["http"])
    assert said.out.endswith("replay: 0 of 21 requests differ\n")


TOTAL = """
class Step:
    def __init__(self, context):
        self._totals = {}

    def __call__(self, position, /, A):
        total = self._totals[position.id] = A + (0 if position.start else self._totals[position.id])
        return {"B": total}
"""


@pytest.mark.parametrize("decoupled", [False, True])
def test_a_sequence_is_sent_again_in_order(
    generate: Generate, tmp_path: Path, decoupled: bool
) -> None:
    project = generate(
        project_name=f"total-{decoupled}",
        max_batch_size=2,
        tensors={"A": "INT32[1]", "B": "INT32[1]"},
        steps=[step("add", ["A"], ["B"], decoupled=decoupled, sequence={"direct": {}})],
    )
    (project / "steps/add.py").write_text(
        TOTAL.replace("return", "yield" if decoupled else "return")
    )
    with (
        serving(project) as server,
        server.module.Client(server.triton.grpc_url, record=str(tmp_path)) as client,
    ):
        ask = client.stream if decoupled else client.infer
        for place in range(3):
            for number in (7, 9):
                answer = ask({"A": [[number]]}, number, place == 0, place == 2)
                assert not decoupled or [*answer]
        wait_for_files(tmp_path, 6)[1].unlink()
        said = call(project, "replay", "--from", str(tmp_path), "--against", server.triton.grpc_url)
        assert said.out == (
            "B: 0 of 3 differ\n"
            "left out: 2 of a sequence that is not recorded as a whole\n"
            "replay: 0 of 1 requests differ\n"
        )
        assert call(project, "samples", "--from", str(tmp_path)).status == 0
    [file] = (project / "samples").glob("recorded-*.json")
    assert json.loads(file.read_text())["inputs"] == {"A": [[7], [7], [7]]}
    [answers] = json.loads((project / "tests/golden.json").read_text())["answers"].values()
    values = [[7], [14], [21]]
    assert answers == ([{"B": [value]} for value in values] if decoupled else [{"B": values}])


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        ([], 2, "replay: against which server? Write AGAINST=http://HOST:8000\n"),
        (["--against=http://a:b@c"], 1, "replay: the URL has a user or a password in it; write"),
        ([f"--against=http://127.0.0.1:{NOWHERE}/v"], 1, "replay: http://127.0.0.1:"),
        (["--against=http://c", "--from=gone"], 1, "replay: gone: has no recordings; make record"),
    ],
)
def test_what_is_wrong_is_one_line(
    project: Project, folder: Path, words: list[str], status: int, line: str
) -> None:
    said = call(project, "replay", f"--from={folder}", *words)
    assert said.status == status
    assert said.err.startswith(line)
    assert said.err.count("\n") == 1
