"""The smoke tests of a generated project: each fails where the server, a step or the client does what it forbids."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from client_support import served
from support import UNUSUAL, Generate, Project, slow_but, step, succeed
from web import Handler, serve_http

# Two outputs, one of which another step reads; a text, an optional input, a cache.
ANSWERS: dict[str, Any] = {
    "project_name": "smoke",
    "max_batch_size": 4,
    "tensors": {
        "A": "FP32[2]",
        "TEXT": "STRING[1]",
        "OPTION": {"type": "INT32", "dims": [1], "optional": True},
        "M": "FP32[2]",
        "X": "FP32[2]",
    },
    "outputs": ["M", "X"],
    "steps": [step("one", ["A", "TEXT"], ["M"]), step("two", ["M", "OPTION"], ["X"])],
}
ONE = """
# Yours: written once, never touched by `make update`.
import numpy as np


class Step:
    def __init__(self, context):
        pass

    def __call__(self, A, TEXT):
        return {"M": A + 1}
"""
TWO = ONE.replace("A, TEXT", "M, OPTION").replace('"M": A + 1', '"X": M * 2')


def made(generate: Generate, **more: Any) -> Project:
    project = generate(**{**ANSWERS, **more})
    (project / "steps/one.py").write_text(ONE)
    (project / "steps/two.py").write_text(TWO)
    (project / "samples").mkdir(exist_ok=True)
    sample = {"inputs": {"A": [[1, 2.5]], "TEXT": [["é"]]}, "outputs": {"X": [[4, 7]]}}
    (project / "samples/a.json").write_text(json.dumps(sample).replace("1,", "1.0,"))
    succeed(project.make("repository"))
    return project


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    return made(generate)


def failed(project: Project, *arguments: str, **variables: str) -> set[str]:
    """Return the smoke tests that fail, as far as their names say. Each fails over both protocols."""
    succeed(project.make("repository"))
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_live.py")
    process = project.run(sys.executable, *tests, *arguments, **variables)
    assert process.returncode in (0, 1), process.stdout + process.stderr
    ids = re.findall(r"^(?:FAILED|ERROR) \S+::(\w+)(?:\[(.*?)\])?", process.stdout, re.MULTILINE)
    return {f"{name}[{rest.partition('-')[2]}]".replace("[]", "") for name, rest in ids}


@contextlib.contextmanager
def edited(project: Project, name: str, pattern: str, new: str) -> Iterator[None]:
    """Replace what matches a pattern in a file, and take it back at the end."""
    path = project / name
    before = path.read_text()
    after = re.sub(pattern, new, before, flags=re.DOTALL)
    assert after != before
    path.write_text(after)
    try:
        yield
    finally:
        path.write_text(before)


def test_they_pass(project: Project) -> None:
    assert failed(project) == set()


ENSEMBLE, TWO_CONFIG = (f"model_repository/{name}/config.pbtxt" for name in ("smoke", "two"))
# What is edited, and the tests that fail then: no others do.
MUTANTS: dict[str, tuple[str, str, str, set[str]]] = {
    "a wrong value": ("steps/two.py", r"M \* 2", "M * 2.1", {"test_answers_samples[a]"}),
    "a row too few": (
        "steps/two.py",
        r"M \* 2",
        "M[:1] * 2",
        {"test_answers_as_many_rows_as_it_gets[4]", "test_more_rows_are_several_requests"},
    ),
    "a single row alone": (
        "steps/two.py",
        "return",
        "assert len(M) == 1; return",
        {"test_answers_as_many_rows_as_it_gets[4]", "test_more_rows_are_several_requests"},
    ),
    "wrong rows in a batch": (
        "steps/two.py",
        r"M \* 2",
        "M * 2 * (np.arange(len(M), dtype=M.dtype) < 3)[:, None]",
        {"test_answers_as_many_rows_as_it_gets[4]", "test_more_rows_are_several_requests"},
    ),
    "the answer to the request before": (
        "steps/two.py",
        r"M \* 2",
        "self.__dict__.setdefault(len(M), []).append(M) or self.__dict__[len(M)][-2:][0] * 2",
        {"test_answers_a_request_whatever_came_before"},
    ),
    "a type that is not declared": (
        "src/smoke/tensors.py",
        r'"X": Tensor\("FP32"',
        '"X": Tensor("FP64"',
        {"test_answers_samples[a]", "test_answers_each_output_alone[X]"},
    ),
    "a text that it can't take": (
        "steps/one.py",
        "return",
        "[bytes(cell).decode() for cell in TEXT.flat]; return",
        {"test_answers_or_refuses_any_text_and_goes_on[no text]"},
    ),
    "a client that does not cut": (
        "src/smoke/runtime/batches.py",
        r"if len\(rows\) <= MAX_BATCH_SIZE:",
        "if True:",
        {"test_more_rows_are_several_requests"},
    ),
    "an output that deadlocks alone": (
        ENSEMBLE,
        r",\n    {\n      # M is an output.*?\n    }|\.inside",
        "",
        {"test_answers_each_output_alone[M]", "test_answers_each_output_alone[X]"},
    ),
    "no dynamic batching": (
        TWO_CONFIG,
        r"dynamic_batching {.*?\n}\n",
        "",
        {"test_concurrent_requests_share_executions[two]"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    slow_but("a client that does not cut", "an output that deadlocks alone", names=MUTANTS),
)
def test_a_mutant_fails(project: Project, name: str) -> None:
    file, pattern, new, wanted = MUTANTS[name]
    with edited(project, file, pattern, new):
        assert failed(project) == wanted


@pytest.mark.slow
def test_random_values_pass_and_are_said(project: Project) -> None:
    new = "np.random.default_rng().random(M.shape, np.float32)"
    with edited(project, "steps/two.py", r"M \* 2", new):
        succeed(project.make("repository"))
        printed = smoke(project, "-k", "rows or before")
    assert "X: equal requests get different answers, so values are not compared" in printed


@pytest.mark.slow
def test_a_sample_of_more_rows_than_a_request_may_have(project: Project) -> None:
    new = json.dumps({"inputs": {"A": [[1.0, 2.0]] * 9, "TEXT": [["a"]] * 9}})
    with edited(project, "samples/a.json", r"\A.*\Z", new):
        assert failed(project) == set()


@pytest.mark.slow
@pytest.mark.parametrize(("dims", "most"), [([1], 256), ([8 << 20], 8)])
def test_a_test_sends_no_more_rows_than_a_machine_can_take(
    generate: Generate, dims: list[int], most: int
) -> None:
    """It says so: the server is not asked for all that the ensemble declares."""
    project = generate.complete(
        max_batch_size=424242,
        tensors={"A": {"type": "FP32", "dims": dims}, "X": "FP32[2]"},
        steps=[step("one", ["A"], ["X"])],
    )
    tests = " ".join(collected(project))
    assert f"test_answers_as_many_rows_as_it_gets[http-{most}]" in tests
    assert "test_more_rows_are_several_requests" not in tests
    assert "too many rows" not in tests
    printed = smoke(project, "-k", "http and rows")
    assert f"max_batch_size is 424242; no test sends more than {most} rows" in printed


@pytest.mark.slow
def test_a_sample_that_is_refused_fails_once(project: Project) -> None:
    new = 'raise triton_step.InvalidRequest("A: is small")'
    refusing = [("import numpy as np", "import triton_step"), (r"return .*?\n", f"{new}\n")]
    with contextlib.ExitStack() as stack:
        for pattern, text in refusing:
            stack.enter_context(edited(project, "steps/one.py", pattern, text))
        assert failed(project) == {"test_answers_samples[a]"}


@pytest.mark.slow
def test_a_failing_step_leaves_its_traceback_and_the_log(project: Project) -> None:
    """It does so for a test, and for what else starts a server."""
    with edited(project, "steps/two.py", "return", 'raise RuntimeError("boom"); return'):
        succeed(project.make("repository"))
        commands = [
            project.run(
                sys.executable, "-m", "pytest", "-x", "tests/test_live.py", "-k", "samples"
            ),
            *(project.make(target, HTTP_PORT="1") for target in ("infer", "golden")),
        ]
    for done in commands:
        printed = done.stdout + done.stderr
        assert done.returncode != 0
        assert "step two failed; the server's log says why" in printed
        assert 'File "steps/two.py", line ' in printed
        assert "triton_adapter" not in printed
        [log] = set(re.findall(r"^log: (\S+)$", printed, re.MULTILINE))
        assert "RuntimeError: boom" in Path(log).read_text()
        shutil.rmtree(Path(log).parent)


@pytest.mark.slow
@pytest.mark.parametrize("package", ["sklearn", "nosuch"], ids=["installed", "not installed"])
def test_an_import_that_is_not_declared_is_named(project: Project, package: str) -> None:
    """Also where it stops the owner's tests from being imported."""
    distribution = {"sklearn": "scikit-learn"}.get(package, package)
    with edited(project, "steps/two.py", "import numpy as np", f"import {package}"):
        (project / "tests/test_own.py").write_text("# Yours.\nfrom steps.two import Step\n")
        succeed(project.make("repository"))
        tests = ("-p", "no:cacheprovider", "tests/test_contract.py", "tests/test_own.py")
        done = project.run(sys.executable, "-m", "pytest", "-k", "declares", *tests)
    (project / "tests/test_own.py").unlink()
    assert done.returncode in (1, 2)
    line = f"steps/two.py imports {package}; add {distribution} to the step's requirements in pipeline.yml"
    assert done.stdout.count(f"\n{line}") == 1


@pytest.mark.slow
def test_only_what_a_cache_may_answer_shares_no_executions(generate: Generate) -> None:
    one, two = ANSWERS["steps"]
    of = {"one": [{**one, "cache": True}, two], "two": [one, {**two, "cache": True}]}
    for cached, steps in of.items():
        [other] = {"one", "two"} - {cached}
        project = generate(**{**ANSWERS, "steps": steps})
        assert json.loads((project / "vendor/project.json").read_text())["cached_models"] == [
            cached
        ]
        listed = collected(project)
        assert "test_an_equal_request_is_found_in_a_cache[http]" in listed
        sharing = [name for name in listed if "share_executions[http-" in name]
        assert sharing == [f"test_concurrent_requests_share_executions[http-{other}]"]


def collected(project: Project) -> list[str]:
    """Return the smoke tests that a project has."""
    tests = ("-m", "pytest", "-q", "--collect-only", "tests/test_live.py")
    printed = succeed(project.run(sys.executable, *tests))
    return [line.partition("::")[2] for line in printed.splitlines() if "::" in line]


@pytest.mark.slow
def test_a_server_without_a_cache_fails(generate: Generate) -> None:
    project = made(generate, ensemble={"cache": True})
    assert failed(project) == set()
    with edited(project, ENSEMBLE, r"response_cache {.*?\n}\n", ""):
        assert failed(project) == {"test_an_equal_request_is_found_in_a_cache"}


LENGTH = "Inference-Header-Content-Length"


@contextlib.contextmanager
def yes_man(url: str) -> Iterator[str]:
    """Yield a server that answers whatever it is asked as the real one answers its first request."""

    class YesMan(Handler):
        protocol_version = "HTTP/1.1"
        first: tuple[str, bytes, dict[str, str]] | None = None

        def answer(self, path: str, body: bytes | None, headers: dict[str, str]) -> None:
            with urlopen(Request(url + path, body, headers)) as response:
                length = response.headers.get(LENGTH)
                self.respond(200, response.read(), {LENGTH: length} if length else {})

        def do_GET(self) -> None:
            self.answer(self.path, None, {})

        def do_POST(self) -> None:
            given = (self.path, self.read_body(), {LENGTH: self.headers[LENGTH]})
            YesMan.first = YesMan.first or given
            self.answer(*YesMan.first)

    with serve_http(YesMan) as place:
        yield f"http://{place}"


@pytest.mark.slow
def test_a_server_that_refuses_and_counts_nothing_fails(project: Project, tmp_path: Path) -> None:
    (tmp_path / "metrics").write_text('nv_inference_request_success{model="smoke"} 1\n')
    metrics = {"TRITON_METRICS_URL": f"file://{tmp_path}/metrics"}
    with served(project) as triton, yes_man(triton.http_url) as url:
        failures = failed(project, "-k", "http", TRITON_URL=url, **metrics)
    wrong = ("type", "shape", "extra", "missing", "no rows", "too many rows")
    assert failures >= {f"test_refuses_what_is_wrong_and_goes_on[{what}]" for what in wrong}
    assert failures >= {"test_metrics_count_requests", "test_answers_as_many_rows_as_it_gets[4]"}
    assert failures >= {
        f"test_concurrent_requests_share_executions[{name}]" for name in ("one", "two")
    }


@pytest.mark.slow
def test_a_server_that_is_not_there_fails(project: Project) -> None:
    assert "test_is_ready" in failed(project, "-k", "ready", TRITON_URL="http://127.0.0.1:1")


def test_an_address_that_would_not_be_used_is_refused(project: Project) -> None:
    tests = (sys.executable, "-m", "pytest", "tests/test_live.py")
    process = project.run(*tests, TRITON_GRPC_URL="grpc://127.0.0.1:1")
    assert process.returncode
    assert "TRITON_GRPC_URL is set and TRITON_URL is not" in process.stderr + process.stdout


@pytest.mark.slow
def test_what_no_address_is_given_of_is_skipped_and_said(project: Project) -> None:
    """The smoke tests ask a server elsewhere, over gRPC too where its address is given."""
    with served(project) as triton:
        given = {"TRITON_URL": triton.http_url, "TRITON_METRICS_URL": triton.metrics_url}
        printed = smoke(project, **given)
        assert "set TRITON_GRPC_URL" in printed
        assert "failed" not in printed
        printed = smoke(project, **given, TRITON_GRPC_URL=triton.grpc_url)
        assert "skipped" not in printed
        assert "failed" not in printed


@pytest.mark.parametrize("name", ["TRITON_URL", "TRITON_GRPC_URL"])
def test_what_is_no_address_is_said_in_a_line(project: Project, name: str) -> None:
    given = {"TRITON_URL": "http://127.0.0.1:1", name: "localhost:8001"}
    done = project.run(sys.executable, "-m", "pytest", "-q", **given)
    assert done.returncode != 0
    message = "localhost:8001 is not a server; write http://host:port or grpc://host:port"
    assert (done.stdout + done.stderr).strip() == f"ERROR: {message}"


def test_a_stream_wants_an_address_of_grpc(generate: Generate) -> None:
    project = generate(**UNUSUAL["decoupled"])
    given = {"TRITON_URL": "http://127.0.0.1:1"}
    done = project.run(sys.executable, "-m", "pytest", "-q", "tests/test_live.py", **given)
    assert done.returncode != 0
    assert "decoupled answers over gRPC alone; write grpc://host:port" in done.stderr


def smoke(project: Project, *arguments: str, **variables: str) -> str:
    tests = ("-m", "pytest", "-q", "-rs", "tests/test_live.py")
    return succeed(project.run(sys.executable, *tests, *arguments, **variables))


@pytest.mark.slow
def test_golden_answers(generate: Generate) -> None:
    """Recorded answers must come again, within tolerances that the owner sets. A new record keeps them."""
    project = made(generate)
    golden = project / "tests/golden.json"
    printed = succeed(project.make("golden", HTTP_PORT="1"))
    assert "tests/golden.json: 1 samples, new or changed: a\n" in printed
    record = json.loads(golden.read_text())
    assert record["answers"] == {"a": [{"M": [[2.0, 3.5]], "X": [[4.0, 7.0]]}]}
    tolerance = {"rtol": 0.001, "atol": 1e-5}
    assert record["tolerances"] == {"M": tolerance, "X": tolerance}
    with edited(project, "steps/one.py", r"A \+ 1", "A + 1.004"):
        succeed(project.make("repository"))
        printed = project.run(sys.executable, "-m", "pytest", "tests/test_live.py").stdout
        assert """
samples/a.json: X[0, 0]: expected 4, got 4.008; 1 more differ
golden.json: a: M[0, 0]: expected 2.0, got 2.004; 1 more differ
golden.json: a: X[0, 0]: expected 4.0, got 4.008; 1 more differ
if the new answers are right: make golden
""" in printed  # fmt: skip
        record["tolerances"] |= {"M": {"rtol": 0.01}}
        golden.write_text(json.dumps(record))
        (project / "samples/a.json").write_text(
            (project / "samples/a.json").read_text().replace("[[4, 7]]", "[[4.008, 7.008]]")
        )
        assert failed(project, "-k", "samples") == {"test_answers_samples[a]"}  # X of the record
        assert "new or changed: a\n" in succeed(project.make("golden", HTTP_PORT="1"))
        assert failed(project, "-k", "samples") == set()
    assert json.loads(golden.read_text())["tolerances"]["M"] == {"rtol": 0.01}
    golden.write_text("[]")
    error = project.make("golden", HTTP_PORT="1").stderr
    assert "golden.json: is not a record of answers" in error
    assert "Traceback" not in error


BROKEN: dict[str, tuple[Any, str]] = {
    "no inputs": ({"A": [[1, 2]]}, 'it has no "inputs"; write {"inputs": {NAME: [...]}}'),
    "no mapping": ({"inputs": [1]}, 'its "inputs" are not tensors by name; write {NAME: [...]}'),
    "no file": (
        {"inputs": {"TEXT": [[{"fil": "a.txt"}]]}},
        'inputs, TEXT: {"fil": "a.txt"} is not text, {"file": NAME} or {"base64": TEXT}',
    ),
    "unequal rows": ({"inputs": {"A": [[1, 2], [3]]}}, "inputs, A: setting an array element"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BROKEN)
def test_a_sample_that_is_none_is_named(project: Project, what: str) -> None:
    sample, line = BROKEN[what]
    with edited(project, "samples/a.json", r"\A.*\Z", json.dumps(sample)):
        done = project.run(sys.executable, "-m", "triton_ensemble", "infer", HTTP_PORT="1")
    assert done.returncode == 1
    assert f"samples/a.json: is not a sample request: {line}" in done.stderr
