"""`make bench`: what it measures on a real Triton, and what is wrong with what it is given."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_support import serving
from step_code import step_code
from support import PIPELINES, UNUSUAL, Generate, Project, Server, call, serve, step, succeed

from triton_ensemble.measure.closed_loop import Address, ClosedLoop

SHORT = "--seconds 0.3"


def bench(project: Project, arguments: str, **more: str) -> str:
    return succeed(project.make("bench", f"ARGS={arguments}", **more))


def concurrencies(printed: str) -> list[int]:
    """Return the concurrencies of the first table."""
    table = printed.partition("errors\n")[2].partition("\n\n")[0]
    return [int(first) for first in re.findall(r"^ +(\d+) ", table, re.MULTILINE)]


@pytest.fixture(scope="module")
def digits(default_project: Project) -> Iterator[Server]:
    with serve(default_project) as server:
        yield server


@pytest.mark.slow
def test_a_table_a_sentence_and_the_figures(default_project: Project, tmp_path: Path) -> None:
    printed = bench(default_project, f"{SHORT} --concurrency 1 8 --out {tmp_path}/first")
    assert concurrencies(printed) == [1, 8]
    models = re.findall(r"^ +1  (\w+)", printed, re.MULTILINE)
    assert models == ["preprocess", "classify", "label"]
    saved = json.loads((tmp_path / "first.json").read_text())
    assert [level["load"]["concurrency"] for level in saved["levels"]] == [1, 8]
    for level in saved["levels"]:
        load = level["load"]
        assert load["throughput"] > 0
        assert not load["errors"]
        assert 0 < load["p50_us"] <= load["p95_us"] <= load["p99_us"]
        assert {model["instances"] for model in level["models"]} == {1}
        for model in level["models"]:
            assert model["compute_us"] < level["server_us"] < load["p99_us"] * 2
            assert 0 < model["quantiles_us"][0] <= model["quantiles_us"][1]
    assert [*tmp_path.iterdir()] == [tmp_path / "first.json"]


TENSOR = {"type": "FP32", "dims": [1]}
CODE = "class Step:\n    def __init__(self, context):\n        self.calls = context.calls\n\n    def __call__(self, {}):\n{}\n"
CALLING = {
    "ask": ("A", "        return {'B': self.calls.slow(x=A)['y']}"),
    "slow": ("x", "        import time\n        time.sleep(0.02)\n        return {'y': x}"),
    "end": ("B", "        return {'C': B}"),
}


@pytest.fixture(scope="module")
def calling(generate: Generate) -> Project:
    """Return a project with a step that waits for a model that only it calls."""
    steps = [
        step("ask", ["A"], ["B"], calls=["slow"]),
        step("end", ["B"], ["C"], fuse=False),
        step("slow", {"x": TENSOR}, {"y": TENSOR}, batching=False),
    ]
    project = generate(project_name="calling", tensors=dict.fromkeys("ABC", "FP32[1]"), steps=steps)
    for name, (argument, body) in CALLING.items():
        (project / f"steps/{name}.py").write_text(CODE.format(argument, body))
    return project


@pytest.mark.slow
def test_models_that_a_step_calls_are_measured_too(calling: Project, tmp_path: Path) -> None:
    printed = bench(calling, f"{SHORT} --concurrency 1 8 --out {tmp_path}/run")
    assert re.findall(r"^ +1  (\w+)", printed, re.MULTILINE) == ["ask", "slow", "end"]
    measured = json.loads((tmp_path / "run.json").read_text())["levels"]
    asking = [level["models"][0] for level in measured]
    assert all(ask["called_us"] > 15e3 for ask in asking), asking  # of 20 ms


@pytest.mark.slow
def test_the_slow_step_of_a_fused_model_is_named(generate: Generate, tmp_path: Path) -> None:
    steps = [step("top", ["A"], ["B"]), step("vad", ["B"], ["C"])]
    project = generate(project_name="fused", tensors=dict.fromkeys("ABC", "FP32[1]"), steps=steps)
    slow = "        import time\n        time.sleep(0.02)\n        return {'C': B}"
    for name, argument, body in (("top", "A", "        return {'B': A}"), ("vad", "B", slow)):
        (project / f"steps/{name}.py").write_text(CODE.format(argument, body))
    printed = bench(project, f"--seconds 3 --concurrency 1 --out {tmp_path}/run")
    assert re.search(r"^ +1  - vad +\d", printed, re.MULTILINE), printed
    assert re.search(r"Of the time of top_to_vad, its step vad takes (9\d|100)%", printed), printed


@pytest.mark.slow
def test_models_that_a_step_calls_are_loaded_to_tune(calling: Project) -> None:
    process = calling.make("tune", "TIME=1", "CONCURRENCY=1")
    assert process.stderr.startswith("Nothing was measured: TIME=1 is too short"), process.stderr


@pytest.mark.slow
def test_a_picture_where_matplotlib_is_installed(digits: Server, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    arguments = f"{SHORT} --concurrency 1 2 --out {tmp_path}/run --plot {tmp_path}/run.png"
    printed = bench(digits.project, arguments, TRITON_URL=digits.urls["grpc"])
    assert printed.endswith("run.png\n")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_without_matplotlib_is_refused_before_anything_is_measured(
    default_project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = call(default_project, "bench", "--plot", f"{tmp_path}/run.png")
    assert (said.status, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith("--plot needs matplotlib, which is not installed: ")


@pytest.mark.slow
def test_two_runs_are_compared(digits: Server, tmp_path: Path) -> None:
    address = {"TRITON_URL": digits.urls["grpc"]}
    bench(digits.project, f"{SHORT} --concurrency 1 2 --out {tmp_path}/old", **address)
    again = ("bench", f"BASE={tmp_path}/old.json", "ARGS=--seconds 0.4 --concurrency 2 4")
    printed = succeed(digits.project.make(*again, **address))
    assert "\nThe conditions differ: seconds 0.3 -> 0.4.\n" in printed
    assert len(re.findall(r"^ +2 .* -> .*%", printed, re.MULTILINE)) == 1
    assert not re.search(r"^ +[14] .* -> ", printed, re.MULTILINE)


def test_requests_of_several_rows(digits: Server, tmp_path: Path) -> None:
    arguments = f"{SHORT} --concurrency 2 --rows 8 --out {tmp_path}/eight"
    printed = bench(digits.project, arguments, TRITON_URL=digits.urls["grpc"])
    assert "8 rows a request" in printed
    batches = re.findall(r"^ +2  \w+ +\S+ +\S+ +(\S+)", printed, re.MULTILINE)
    assert all(float(batch) == 8 for batch in batches)


@pytest.mark.slow
def test_levels_grow_until_throughput_does_not(digits: Server) -> None:
    levels = concurrencies(bench(digits.project, SHORT, TRITON_URL=digits.urls["grpc"]))
    assert levels == [2**i for i in range(len(levels))]
    assert len(levels) >= 3


def test_the_address_of_http_is_enough(digits: Server) -> None:
    port = digits.urls["grpc"].rpartition(":")[2]
    options = {"TRITON_URL": digits.urls["http"], "GRPC_PORT": port}
    assert "requests/s" in bench(digits.project, f"{SHORT} --concurrency 1", **options)


@pytest.mark.parametrize(
    ("words", "url", "line"),
    [
        ("", "grpc://127.0.0.1:1", "no Triton answers gRPC at 127.0.0.1:1 "),
        ("", "127.0.0.1:1", "127.0.0.1:1 is not a server; write grpc://host:port"),
        ("--gate HEAD", "grpc://127.0.0.1:1", "GATE starts both servers on this machine; unset "),
        ("--base Makefile", "", "Makefile: is not from `make bench`: "),
        ("--base samples/digit-7.json", "", "samples/digit-7.json: is not from `make bench`"),
        ("--out Makefile/run", "", "[Errno 17] File exists: 'Makefile'"),
        ("--seconds 0", "", "triton-ensemble bench: error: argument --seconds: '0' is not a posi"),
        ("--rows 1.5", "", "triton-ensemble bench: error: argument --rows: '1.5' is not a posi"),
    ],
)
def test_what_is_wrong_is_one_line(
    default_project: Project, words: str, url: str, line: str
) -> None:
    said = call(default_project, "bench", *words.split(), TRITON_URL=url)
    assert said.status
    [text] = said.err.splitlines()
    assert text.startswith(line)


def test_a_server_of_another_project(digits: Server, generate: Generate) -> None:
    process = generate(**PIPELINES["one step"]).make("bench", TRITON_URL=digits.urls["grpc"])
    assert "does not serve this project: " in process.stderr
    assert len(process.stderr.splitlines()) == 2  # the other is make's


@pytest.mark.slow
def test_a_server_that_keeps_its_configs_to_itself(default_project: Project) -> None:
    """The container does so too."""
    with serving(default_project, "--grpc-restricted-protocol=model-config:key=x") as server:
        printed = bench(default_project, f"{SHORT} --concurrency 1", TRITON_URL=server.urls["grpc"])
    assert "classify" in printed


def test_too_many_rows(digits: Server) -> None:
    process = digits.project.make("bench", "ARGS=--rows 9", TRITON_URL=digits.urls["grpc"])
    assert process.stderr.startswith("a request of image_classification has at most 8 rows")


@pytest.mark.slow
def test_what_fails_is_counted_and_said(generate: Generate) -> None:
    project = generate()
    for sample in (project / "samples").glob("*.json"):
        sample.unlink()
    (project / "samples/text.json").write_text('{"inputs": {"IMAGE": [["no image"]]}}')
    process = project.make("bench", f"ARGS={SHORT} --concurrency 1")
    said = r"No request was answered.\n\d+ failed: INVALID_ARGUMENT: .*IMAGE, row 0: .*\nmake: "
    assert re.match(said, process.stderr)
    image = '{"inputs": {"IMAGE": [[{"file": "digit-7.jpg"}]]}}'
    (project / "samples/image.json").write_text(image)
    printed = bench(project, f"{SHORT} --concurrency 1")
    assert re.search(r"^ +1 +\d.* [1-9]\d*$", printed, re.MULTILINE)
    assert re.search(r"^\d+ failed: INVALID_ARGUMENT: .*IMAGE", printed, re.MULTILINE)
    assert "Some requests failed" in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["no batch dimension", "sequence"])
def test_pipelines_of_other_kinds(generate: Generate, name: str) -> None:
    project = generate(**(PIPELINES | UNUSUAL)[name])
    printed = bench(project, f"{SHORT} --concurrency 8")
    assert re.search(r"^ +8 +\S+ +\S+ +\S+ +\S+ +0$", printed, re.MULTILINE), printed


STREAM = step_code(
    """
async def __call__(self, A):
    import asyncio
    await asyncio.sleep(0.04)
    for i in range(5):
        yield {"B": A + i}
        await asyncio.sleep(0.02)
    if A.any():
        raise InvalidRequest("A: is not 0")
""",
    "from triton_step import InvalidRequest",
)


@pytest.fixture(scope="module")
def streaming(generate: Generate) -> Iterator[Server]:
    """Serve a pipeline that answers five times, 20 ms apart, the first time after 40 ms."""
    project = generate(
        project_name="streaming",
        tensors=dict.fromkeys("ABC", "FP32[1]"),
        steps=[step("count", ["A"], ["B"], decoupled=True), step("end", ["B"], ["C"], fuse=False)],
    )
    (project / "steps/count.py").write_text(STREAM)
    (project / "steps/end.py").write_text(CODE.format("B", "        return {'C': B}"))
    with serve(project) as server:
        yield server


def bench_of(streaming: Server, value: int, arguments: str, folder: Path) -> str:
    inputs = {"inputs": {"A": [[value]]}}
    (streaming.project / "samples/stub.json").write_text(json.dumps(inputs))
    arguments = f"--seconds 1 --out {folder}/run {arguments}"
    return bench(streaming.project, arguments, TRITON_URL=streaming.urls["grpc"])


@pytest.mark.slow
def test_a_stream_is_measured_by_its_responses(streaming: Server, tmp_path: Path) -> None:
    printed = bench_of(streaming, 0, "--concurrency 1 8", tmp_path)
    head = "concurrency  requests/s responses/s first p50 ms first p99 ms between p50 ms between p99 ms  errors"
    assert head in printed.splitlines()
    assert concurrencies(printed) == [1, 8]
    for level in json.loads((tmp_path / "run.json").read_text())["levels"]:
        load, stream = level["load"], level["load"]["stream"]
        assert stream["per_s"] == pytest.approx(5 * load["throughput"], rel=0.5)
        assert 40e3 < stream["first_p50_us"] <= stream["first_p99_us"]
        assert 20e3 < stream["between_p50_us"] <= stream["between_p99_us"]
        assert stream["first_p50_us"] + 4 * stream["between_p50_us"] < load["p99_us"] * 1.1
        assert not load["errors"]


@pytest.mark.slow
def test_runs_of_streams_are_compared(streaming: Server, tmp_path: Path) -> None:
    bench_of(streaming, 0, "--concurrency 2", tmp_path)
    printed = bench_of(streaming, 0, f"--concurrency 2 --base {tmp_path}/run.json", tmp_path)
    assert re.search(r"responses/s +first p50 ms +between p50 ms\n +2( .*->.*%){3}\n", printed)


def test_a_stream_that_ends_with_an_error_has_failed(streaming: Server, tmp_path: Path) -> None:
    (streaming.project / "samples/stub.json").write_text(json.dumps({"inputs": {"A": [[1.0]]}}))
    process = streaming.project.make(
        "bench", f"ARGS=--seconds 1 --out {tmp_path}/run", TRITON_URL=streaming.urls["grpc"]
    )
    assert process.returncode
    assert re.search(r"failed: .*step count: A: is not 0\n", process.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("callers", [1, 8])
def test_a_ctrl_c_while_callers_start_ends_them(
    monkeypatch: pytest.MonkeyPatch, callers: int
) -> None:
    before, start = {*threading.enumerate()}, threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if not thread.daemon:
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ClosedLoop(Address("127.0.0.1:1"), [[b""]] * callers).__enter__()
    [left] = [thread for thread in {*threading.enumerate()} - before if not thread.daemon]
    left.join(30)
    assert not left.is_alive()
