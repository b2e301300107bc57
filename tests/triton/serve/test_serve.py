"""The local Triton, for real: what it serves, what it says when it can't, what it leaves behind."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pytest
import tritonclient.http as triton_http  # type: ignore[import-untyped]
from serve_support import (  # noqa: F401
    IDENTITY,
    TENSORS,
    identity,
    logs_are_in,
    repository,
    served,
    write_ensemble,
    write_model,
    write_python,
)
from support import SOURCES
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.serve.local import local_triton as serve
from triton_ensemble.serve.local import ports
from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.ports import describe_taken
from triton_ensemble.serve.local.process import EXIT_TIMEOUT_S, ServerError

ENDS_SLOWLY = IDENTITY + "\n    def finalize(self): __import__('time').sleep(30)\n"


def infer(url: str, model: str, **arrays: Any) -> dict[str, Any]:
    """Return all outputs of one request."""
    types = {"float32": "FP32", "object": "BYTES", "int64": "INT64"}
    inputs = []
    for name, array in arrays.items():
        tensor = triton_http.InferInput(name, list(array.shape), types[str(array.dtype)])
        inputs.append(tensor.set_data_from_numpy(array))
    with triton_http.InferenceServerClient(url.removeprefix("http://")) as client:
        result = client.infer(model, inputs)
        return {o["name"]: result.as_numpy(o["name"]) for o in result.get_response()["outputs"]}


def processes(part: str) -> list[str]:
    """Return the command lines with that part, of Triton and of its stubs."""
    commands = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if part in command and "/triton" in command:
                commands.append(command)
    return commands


def server_id(repository: Path) -> str:
    """Return the name of the server that has links to this repository. Wait for it to start."""
    while True:
        for command in processes("--model-repository="):
            options: dict[str, str] = dict(re.findall(r"--(id|model-repository)=(\S+)", command))
            served = Path(options["model-repository"])
            links = (
                [path for path in served.rglob("*") if path.is_symlink()] if "id" in options else []
            )
            if any(link.resolve().is_relative_to(repository) for link in links):
                return options["id"]
        time.sleep(0.01)


def assert_nothing_left(name: str, *ports: int) -> None:
    """Check that a server left nothing. Its folder and its shared memory begin with its `name`."""
    deadline = time.monotonic() + 2  # a killed process takes a moment to go
    while (left := what_is_left(name, *ports)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []
    assert [region for region in os.listdir("/dev/shm") if region.startswith(name)] == []


def what_is_left(name: str, *ports: int) -> list[str]:
    """Return the server's processes, and its ports that answer: they close after a process has lost its name."""
    left = processes(name.rstrip("-"))
    for port in ports:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                left.append(f"port {port}")
    return left


def test_one_that_is_not_gentle_ends_at_once_and_leaves_nothing(repository: Path) -> None:
    write_python(repository, "a", ENDS_SLOWLY)
    with LocalTriton(repository, "a", gentle=False) as triton:
        name, port = server_id(repository), int(triton.http_url.rpartition(":")[2])
        infer(triton.http_url, "a", IN=np.zeros((1, 4), np.float32))
        answered = time.monotonic()
    assert time.monotonic() - answered < EXIT_TIMEOUT_S
    assert_nothing_left(name, port)


def test_ensemble_answers(served: LocalTriton) -> None:
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert np.array_equal(infer(served.http_url, "chain", IN=rows)["OUT"], rows)


def test_models_cannot_import_the_project(repository: Path) -> None:
    write_python(repository, "a", "import tools\n" + IDENTITY)
    assert_refused(repository, "No module named 'tools'")


BROKEN_CODE = {
    "def f(:": r"failed to load '{}'.*SyntaxError: invalid syntax",
    "import nosuch": r"failed to load '{}'.*No module named 'nosuch' \(.*/1/model.py, line 1\)",
    "x = 1": r"failed to load '{}'.*has no attribute 'TritonPythonModel'",
    "import os; os._exit(1)": r"failed to load '{0}'.*Stub process '{0}_0' is not healthy",
    IDENTITY + "    def initialize(self, args): raise ValueError('3x3,\\nnot 4x4 \"ü\"')": (
        r"failed to load '{}'.*ValueError: 3x3, not 4x4 \"ü\" \(.*/1/model.py, line 9\)"
    ),
}


@pytest.mark.slow
def test_each_root_cause_has_one_line(identity: Path) -> None:
    """Models are broken in every way at once. Ensembles that only depend on the broken are not mentioned."""
    for i, code in enumerate(BROKEN_CODE):
        write_python(identity, f"m{i}", code)
    write_ensemble(identity, "victim", "a", *(f"m{i}" for i in range(len(BROKEN_CODE))))
    write_ensemble(identity, "second_victim", "victim")
    write_model(identity, "config", "nosuch: 3\n")
    write_ensemble(identity, "wiring", "a", "nosuch")
    write_ensemble(identity, "third_victim", "wiring")
    write_python(identity, "no_version")
    shutil.rmtree(identity / "no_version" / "1")
    write_model(identity, "backend", f'backend: "nosuch"\n{TENSORS}')
    (identity / "docs").mkdir()
    assert_refused(
        identity,
        r"'config': .*config.pbtxt: 1:7: .*has no field named \"nosuch\"",
        r"'docs': .*docs/config.pbtxt: No such file",
        r"ensemble wiring contains models that are not available.*: nosuch",
        r"'no_version': at least one version must be available",
        r"'backend'.*: unable to find backend library for backend 'nosuch'",
        *(text.format(f"m{i}") for i, text in enumerate(BROKEN_CODE.values())),
    )


def assert_refused(repository: Path, *texts: str, **options: Any) -> None:
    """Check that there is one line for each text, in any order, and nothing left behind but the log."""
    with pytest.raises(ServerError) as caught, LocalTriton(repository, "a", **options):
        pass
    first, *reasons, log = str(caught.value).splitlines()
    assert first == f"Triton can't serve {repository}"
    assert len(reasons) == len(texts), reasons
    for text in texts:
        assert [reason for reason in reasons if re.search(text, reason)], (text, reasons)
    folder = Path(log.removeprefix("log: ")).parent
    assert os.listdir(folder) == ["triton.log"]
    assert_nothing_left(folder.name)


@pytest.mark.slow
def test_wiring_that_only_loading_shows(identity: Path) -> None:
    write_python(identity, "b", tensors=TENSORS.replace("FP32", "INT32"))
    write_ensemble(identity, "chain", "a", "b")
    write_ensemble(identity, "outer", "chain")
    assert_refused(identity, "in ensemble chain, ensemble tensor T1: inconsistent data type")


def test_missing_model_py_is_found_at_once(identity: Path) -> None:
    write_model(identity, "b", f'backend: "python"\n{TENSORS}')
    start = time.monotonic()
    assert_refused(identity, "Python model file not found in .*b/1/model.py")
    assert time.monotonic() - start < 5


def test_timeout_names_the_model(repository: Path) -> None:
    write_python(repository, "a", "import time; time.sleep(60)")
    assert_refused(repository, r"not ready after 1 s; still loading: a", timeout=1)


def test_unknown_flag(identity: Path) -> None:
    assert_refused(identity, r"unrecognized option '--nosuch=1'", server_args=["--nosuch=1"])


def test_an_open_conflict_is_named(identity: Path) -> None:
    conflict = Path(".apply/conflicts", identity.name, "a/config.pbtxt")
    (identity.parent / conflict.parent).mkdir(parents=True)
    (identity.parent / conflict).touch()
    line = f"^  {identity.name}/a/config.pbtxt: merge {conflict} into it, then remove that file$"
    assert_refused(identity, line, "unrecognized option", server_args=["--nosuch=1"])


@pytest.mark.parametrize("api", ["http", "grpc", "metrics"])
def test_port_in_use(identity: Path, served: LocalTriton, api: str) -> None:
    port = urlsplit(getattr(served, f"{api}_url")).port
    options: dict[str, Any] = {f"{api}_port": port}
    with pytest.raises(ServerError, match=rf"^port {port} is in use, by process \d+ \(triton"):
        LocalTriton(identity, "a", **options).__enter__()


def test_all_ports_in_use_are_named_at_once(identity: Path, served: LocalTriton) -> None:
    urls = {"http": served.http_url, "grpc": served.grpc_url}
    ports: dict[str, Any] = {f"{api}_port": urlsplit(url).port for api, url in urls.items()}
    with socket.create_server(("127.0.0.1", 0)) as mine:
        ports["metrics_port"] = mine.getsockname()[1]
        with pytest.raises(ServerError) as raised:
            LocalTriton(identity, "a", **ports).__enter__()
    http, grpc, metrics = ports.values()
    assert re.fullmatch(
        rf"ports {http}, {grpc} are in use, by process {served.pid} \(tritonserver .*\); "
        rf"port {metrics} is in use, by process {os.getpid()} \(.*\); "
        r"choose others, or free ones: HTTP_PORT=0 GRPC_PORT=0 METRICS_PORT=0",
        str(raised.value),
    )


def test_a_container_that_has_a_port_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is another user's. Containers of the folder that asks may have theirs."""
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\ncase $3 in publish=*) echo demo-triton-1 of /app/deploy;; esac\n")
    docker.chmod(0o755)
    monkeypatch.setenv("DOCKER", str(docker))
    with socket.create_server(("127.0.0.1", 0)) as mine:
        ports = {"http": mine.getsockname()[1], "grpc": 0}
        assert describe_taken(ports, ours="/other/deploy") == (
            f"port {ports['http']} is in use, by container demo-triton-1 of /app/deploy; "
            "choose others, or free ones: HTTP_PORT=0"
        )
        assert describe_taken(ports, ours="/app/deploy") == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a b", "q'x", 'd"x', "p(x", "a;b", "e$x", "ü", "-x", "~"])
def test_any_path_serves(tmp_path: Path, name: str) -> None:
    """Triton gives the paths of Python models to a shell."""
    repository = tmp_path / name / "models"
    write_python(repository, "a")
    with LocalTriton(repository, "a", timeout=20) as triton:
        x = np.ones((1, 4), dtype=np.float32)
        assert (infer(triton.http_url, "a", IN=x)["OUT"] == x).all()


@pytest.mark.slow
def test_port_that_only_triton_finds_in_use(identity: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        assert_refused(identity, "already in use", grpc_port=silent.getsockname()[1])


@pytest.mark.slow
def test_free_port_that_is_taken_meanwhile(identity: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ports.free_ports
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        taken = iter([{"grpc": silent.getsockname()[1]}, {}])
        monkeypatch.setattr(serve, "free_ports", lambda wanted: chosen(wanted) | next(taken))
        with LocalTriton(identity, "a"):
            pass


RACE = """
        import os, pathlib, signal, sys
        if not pathlib.Path({seen!r}).exists():
            pathlib.Path({seen!r}).touch()
            print("  what():  boost::interprocess::lock_exception", file=sys.stderr, flush=True)
            os.kill(os.getppid(), signal.SIGABRT)
"""


@pytest.mark.slow
def test_a_race_that_its_python_backend_loses_is_run_again(tmp_path: Path) -> None:
    """Seen twice in some thousand starts, on a busy machine. A model stands in for it."""
    seen = tmp_path / "seen"
    code = f"{IDENTITY}\n    def initialize(self, args):{RACE.format(seen=str(seen))}"
    write_model(tmp_path / "r", "a", f'backend: "python"\n{TENSORS}', model=code)
    with LocalTriton(tmp_path / "r", "a") as triton:
        assert seen.exists()
        assert (infer(triton.http_url, "a", IN=np.ones((1, 4), np.float32))["OUT"] == 1).all()


@pytest.mark.slow
def test_idle_client_and_endless_model_do_not_hold_up_the_stop(identity: Path) -> None:
    """The old connection does not block the same port for the next server either."""
    endless = IDENTITY.replace("inputs =", "while True: pass\n        inputs =")
    write_python(identity, "endless", endless)
    with LocalTriton(identity, "a") as triton:
        port = urlsplit(triton.http_url).port or 0
        idle = http.client.HTTPConnection("127.0.0.1", port)
        idle.request("GET", "/v2")
        idle.getresponse().read()
        body = {"name": "IN", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
        waiting = http.client.HTTPConnection("127.0.0.1", port)
        waiting.request("POST", "/v2/models/endless/infer", json.dumps({"inputs": [body]}))
        time.sleep(0.3)
        name = server_id(identity)
        start = time.monotonic()
    assert time.monotonic() - start < EXIT_TIMEOUT_S + 3
    assert_nothing_left(name, port)
    assert not triton.log.parent.exists()
    idle.close()
    waiting.close()
    with LocalTriton(identity, "a", http_port=port):
        pass


def start_command(repository: Path) -> subprocess.Popen[str]:
    ports = ["--http-port=0", "--grpc-port=0", "--metrics-port=0"]
    return subprocess.Popen(
        [sys.executable, "-m", "triton_ensemble", "serve", *ports, str(repository), "a"],
        cwd=SOURCES,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ports_when_ready(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout
    lines = [process.stdout.readline() for _ in range(4)]
    return [port for line in lines[1:] if (port := urlsplit(line.strip()).port)]


def assert_stopped_well(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=15)
    assert (process.returncode, errors) == (0, "")


def test_a_signal_ends_the_command(tmp_path: Path) -> None:
    """The signals are Ctrl-C, `kill` and a closed terminal. Three commands at once, as each takes seconds."""
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    repositories = [tmp_path / number.name for number in numbers]
    for folder in repositories:
        write_python(folder, "a")
    commands = [start_command(folder) for folder in repositories]
    ports = [ports_when_ready(command) for command in commands]
    names = [server_id(repository) for repository in repositories]
    for command, number in zip(commands, numbers, strict=True):
        command.send_signal(number)
    for command, name, own in zip(commands, names, ports, strict=True):
        assert len(own) == 3
        assert_stopped_well(command)
        assert_nothing_left(name, *own)


@pytest.mark.parametrize("delay_s", [0, 0.1, 0.3])
def test_ctrl_c_during_the_start(repository: Path, delay_s: float) -> None:
    write_python(repository, "a", "import time; time.sleep(60)")
    command = start_command(repository)
    name = server_id(repository)
    time.sleep(delay_s)
    command.send_signal(signal.SIGINT)
    assert_stopped_well(command)
    assert_nothing_left(name)


@pytest.mark.parametrize("gap_s", [0, 0.0005, 0.01, 0.1])
def test_signals_in_a_burst_leave_nothing(identity: Path, gap_s: float) -> None:
    command = start_command(identity)
    ports = ports_when_ready(command)
    name = server_id(identity)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        command.send_signal(number)
        time.sleep(gap_s)
    assert_stopped_well(command)
    assert_nothing_left(name, *ports)
    assert not list(Path(os.environ["TMPDIR"]).glob("triton-*"))


def test_signals_while_a_process_is_asked_for_leave_it_to_be_ended() -> None:
    code = (
        "import contextlib, signal, subprocess\n"
        "from triton_ensemble.serve.local.process import end, exit_code\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        "process = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "for number in range(100):\n"
        "    with contextlib.suppress(KeyboardInterrupt):\n"
        "        signal.setitimer(signal.ITIMER_REAL, 1e-5 + number * 1e-6)\n"
        "        while exit_code(process) is None: pass\n"
        "end(process, True)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=SOURCES, check=True, timeout=15)


def test_a_program_that_serves_can_be_killed(identity: Path) -> None:
    code = (
        "import pathlib, sys, time; from triton_ensemble.serve.local.local_triton import LocalTriton\n"
        "with LocalTriton(pathlib.Path(sys.argv[1]), 'a'): time.sleep(60)"
    )
    program = subprocess.Popen([sys.executable, "-c", code, str(identity)], cwd=SOURCES, stderr=-3)
    name = server_id(identity)
    program.send_signal(signal.SIGTERM)
    program.wait(15)
    assert_nothing_left(name)


def test_second_ctrl_c_ends_it_at_once(repository: Path) -> None:
    write_python(repository, "a", ENDS_SLOWLY)
    command = start_command(repository)
    ports = ports_when_ready(command)
    name = server_id(repository)
    command.send_signal(signal.SIGINT)
    time.sleep(0.2)
    command.send_signal(signal.SIGINT)
    start = time.monotonic()
    assert_stopped_well(command)
    assert time.monotonic() - start < EXIT_TIMEOUT_S
    assert_nothing_left(name, *ports)


def test_command_says_why_it_failed_and_no_more(repository: Path) -> None:
    write_python(repository, "a", "import nosuch")
    output, errors = (command := start_command(repository)).communicate(timeout=15)
    assert (command.returncode, output) == (1, "")
    assert "No module named 'nosuch'" in errors
    assert "Traceback" not in errors


def test_server_that_ends_by_itself(identity: Path) -> None:
    command = start_command(identity)
    ports = ports_when_ready(command)
    name = server_id(identity)
    children = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    _, errors = command.communicate(timeout=15)
    assert command.returncode == 1
    assert re.fullmatch(r"Triton ended with exit code -9\nlog: /.*/triton.log\n", errors)
    assert_nothing_left(name, *ports)


@pytest.mark.parametrize("ready", [True, False])
def test_a_killed_command_leaves_no_triton(identity: Path, ready: bool) -> None:
    """Nobody is left to stop it: kill -9 and the killer of a machine that is short of memory ask nobody."""
    command = start_command(identity)
    ports = ports_when_ready(command) if ready else []
    name = server_id(identity)
    time.sleep(0.5)  # also a start takes a moment until there is something to leave
    command.kill()
    command.communicate()
    assert_nothing_left(name, *ports)
    assert not list(Path(os.environ["TMPDIR"]).glob("triton-*"))


@pytest.mark.slow
def test_eight_start_at_once(identity: Path) -> None:
    commands = [start_command(identity) for _ in range(8)]
    try:
        ports = [port for command in commands for port in ports_when_ready(command)]
    finally:
        for command in commands:
            command.terminate()
    for command in commands:
        assert_stopped_well(command)
    assert len(set(ports)) == 3 * 8
    assert not list(Path(os.environ["TMPDIR"]).glob("triton-*"))


def write_onnx(path: Path) -> None:
    """Write y = x @ w and t = s, for FP32 x[batch, 4] and STRING s[batch, 1]."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    tensor, types = onnx.helper.make_tensor_value_info, onnx.TensorProto
    weights = np.arange(8, dtype=np.float32)
    node = onnx.helper.make_node
    graph = onnx.helper.make_graph(
        [node("MatMul", ["x", "w"], ["y"]), node("Identity", ["s"], ["t"])],
        "graph",
        [tensor("x", types.FLOAT, ["n", 4]), tensor("s", types.STRING, ["n", 1])],
        [tensor("y", types.FLOAT, ["n", 2]), tensor("t", types.STRING, ["n", 1])],
        [onnx.helper.make_tensor("w", types.FLOAT, [4, 2], weights)],
    )
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


ONNX_CONFIG = """
backend: "onnxruntime"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [4] }
input { name: "s" data_type: TYPE_STRING dims: [1] }
output { name: "t" data_type: TYPE_STRING dims: [1] }
output { name: "y" data_type: TYPE_FP32 dims: [2] }
"""


@pytest.mark.slow
def test_onnx_model(repository: Path) -> None:
    """Four requests run as one batch. The one with a wrong text fails alone."""
    batching = "dynamic_batching { max_queue_delay_microseconds: 500000 preferred_batch_size: 4 }"
    one = "instance_group { kind: KIND_CPU count: 1 }"
    write_onnx(write_model(repository, "a", ONNX_CONFIG + batching + one) / "model.onnx")
    rows = np.arange(16, dtype=np.float32).reshape(4, 1, 4)
    texts = [b"a", b"\xff", b"", "ü".encode()]

    def ask(i: int) -> dict[str, Any] | str:
        try:
            return infer(triton.http_url, "a", x=rows[i], s=np.array([[texts[i]]], object))
        except InferenceServerException as error:
            return str(error)

    with LocalTriton(repository, "a") as triton, ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(4)))
    assert answers[1] == "[400] model a failed: input s is not UTF-8 text"
    weights = np.arange(8, dtype=np.float32).reshape(4, 2)
    for i in (0, 2, 3):
        answer: Any = answers[i]
        assert np.array_equal(answer["y"], rows[i] @ weights)
        assert answer["t"].tolist() == [[texts[i]]]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('"y"', '"z"', r"the graph has no output z; it has y, t\n"),
        ('"x"', '"z"', r"the graph has no input z; it has x, s\n"),
        ("FP32", "FP64", r"input x is TYPE_FP32 in the graph, not TYPE_FP64\n"),
        ("dims: [2]", "dims: [3]", r"output y has dims \[-1, 2\] in the graph, not \[-1, 3\]"),
        ("max_batch_size: 8", "max_batch_size: 0", r"input x has dims \[-1, 4\].*, not \[4\]\n"),
    ],
)
def test_onnx_config_must_fit_the_graph(repository: Path, old: str, new: str, text: str) -> None:
    config = ONNX_CONFIG.replace(old, new)
    config += "instance_group { kind: KIND_CPU count: 1 }"
    write_onnx(write_model(repository, "a", config) / "model.onnx")
    with pytest.raises(ServerError, match=text) as caught:
        LocalTriton(repository, "a").__enter__()
    assert len(str(caught.value).splitlines()) == 3


PAIR = '{ name: "%s" data_type: TYPE_FP32 dims: [2] }'
PYTORCH_CONFIG = f"""
platform: "pytorch_libtorch"
max_batch_size: 8
input [ {PAIR}, {PAIR} ]
output [ {PAIR}, {PAIR} ]
instance_group {{ kind: KIND_CPU count: 1 }}
"""
# Names of x, y, x + y and x - y in config.pbtxt
TORCH_NAMES = {
    "by_argument": ("y", "x", "sum", "difference"),
    "by_index": ("INPUT__1", "INPUT__0", "OUTPUT__1", "OUTPUT__0"),
    "in_order": ("first", "second", "sum", "difference"),
}


def write_torchscript(path: Path, output: str = "x + y, x - y") -> None:
    """Write a module. TorchScript is compiled from source files only, so its source is one."""
    torch = pytest.importorskip("torch")
    source = path.with_name("module_source.py")
    source.write_text(
        "import torch\n\nclass Sum(torch.nn.Module):\n"
        f"    def forward(self, x: torch.Tensor, y: torch.Tensor):\n        return {output}\n"
    )
    module = runpy.run_path(str(source), run_name="module_source")["Sum"]()
    with warnings.catch_warnings():  # deprecated by PyTorch, still what Triton's backend reads
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(module).save(path)


@pytest.fixture(scope="module")
def torchscript(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalTriton]:
    """Yield a server of the same sum and difference, with their tensors named in each of Triton's ways."""
    repository = tmp_path_factory.mktemp("torchscript")
    for model, names in TORCH_NAMES.items():
        write_torchscript(write_model(repository, model, PYTORCH_CONFIG % names) / "model.pt")
    names = TORCH_NAMES["by_argument"]
    version = write_model(repository, "dictionary", PYTORCH_CONFIG % names)
    write_torchscript(version / "model.pt", '{"difference": x - y, "sum": x + y}')
    with LocalTriton(repository, "by_index") as triton:
        yield triton


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "x", "y", "total", "difference"),
    [
        ("by_argument", "x", "y", "sum", "difference"),
        ("by_index", "INPUT__0", "INPUT__1", "OUTPUT__0", "OUTPUT__1"),
        ("in_order", "first", "second", "sum", "difference"),
        ("dictionary", "x", "y", "sum", "difference"),
    ],
)
def test_torchscript_model(
    torchscript: LocalTriton, model: str, x: str, y: str, total: str, difference: str
) -> None:
    xs, ys = np.array([[1, 2], [3, 4]], np.float32), np.array([[5, 6], [7, 8]], np.float32)
    answer = infer(torchscript.http_url, model, **{x: xs, y: ys})
    assert np.array_equal(answer[total], xs + ys)
    assert np.array_equal(answer[difference], xs - ys)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("IN__0", "IN__2", "a", "b"), r"forward has no argument for IN__2; it has x, y\n"),
        (("x", "x", "a", "b"), r"forward takes y, for which there is no input\n"),
    ],
)
def test_torchscript_config_must_fit_forward(
    repository: Path, names: tuple[str, ...], text: str
) -> None:
    write_torchscript(write_model(repository, "a", PYTORCH_CONFIG % names) / "model.pt")
    with pytest.raises(ServerError, match=text):
        LocalTriton(repository, "a").__enter__()


@pytest.mark.slow
def test_a_package_of_aotinductor_has_its_tensors_by_place_or_by_name(repository: Path) -> None:
    """Both models have the same file, which is compiled for this CPU in most of a minute."""
    torch = pytest.importorskip("torch")

    class Sum(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any, *, y: Any) -> Any:
            return {"sum": x + y, "pair": (x - y,)}

    varies = {0: torch.export.Dim.DYNAMIC}
    one, other = torch.zeros(2, 2), torch.zeros(2, 2)  # the same for both would be one input
    shapes = {"x": varies, "y": varies}
    program = torch.export.export(Sum(), (one,), {"y": other}, dynamic_shapes=shapes)
    config = PYTORCH_CONFIG.replace("pytorch_libtorch", "torch_aoti")
    by_place = ("INPUT__1", "INPUT__0", "OUTPUT__1", "OUTPUT__0")
    by_name = ("KWARGS[y]", "ARGS[0]", "RESULT[pair][0]", "RESULT[sum]")
    first = write_model(repository, "place", config % by_place) / "model.pt2"
    torch._inductor.aoti_compile_and_package(program, package_path=str(first))
    shutil.copy(first, write_model(repository, "name", config % by_name))
    xs, ys = np.array([[1, 2], [3, 4], [5, 6]], np.float32), np.ones((3, 2), np.float32)
    with LocalTriton(repository, "place") as triton:
        for model, (y, x, difference, total) in {"place": by_place, "name": by_name}.items():
            answer = infer(triton.http_url, model, **{x: xs, y: ys})
            assert np.array_equal(answer[difference], xs - ys)
            assert np.array_equal(answer[total], xs + ys)
    (repository / "name/config.pbtxt").write_text(config % ("KWARGS[z]", *by_name[1:]))
    with pytest.raises(ServerError, match=r"the package has no input KWARGS\[z\]; it has ARGS"):
        LocalTriton(repository, "name").__enter__()


@pytest.mark.slow
def test_wrong_result_of_a_model_is_an_error(repository: Path) -> None:
    """Triton itself would pass on a wrong data type. The client learns no path."""
    config = PYTORCH_CONFIG % ("x", "y", "sum", "difference")
    write_torchscript(write_model(repository, "type", config) / "model.pt", "x + y, x.double()")
    write_torchscript(write_model(repository, "rows", config) / "model.pt", "x + y, x[:1]")
    row = np.zeros((2, 2), np.float32)
    with LocalTriton(repository, "type") as triton:
        with pytest.raises(InferenceServerException, match=r"difference is float64, config.pbtxt"):
            infer(triton.http_url, "type", x=row, y=row)
        with pytest.raises(InferenceServerException, match=r"shape \(1, 2\) for a batch of 2"):
            infer(triton.http_url, "rows", x=row, y=row)


def test_metrics_and_grpc_answer(served: LocalTriton) -> None:
    with urlopen(served.metrics_url, timeout=5) as answer:
        assert 'nv_inference_request_success{model="chain"' in answer.read().decode()
    host, port = served.grpc_url.removeprefix("grpc://").split(":")
    socket.create_connection((host, int(port)), timeout=5).close()


def test_it_listens_on_loopback_only(served: LocalTriton) -> None:
    urls = served.http_url, served.grpc_url, served.metrics_url
    ports = {f"{urlsplit(url).port:04X}" for url in urls}
    tables = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    rows = [line.split() for line in tables.splitlines()]
    listening = [row[1].split(":") for row in rows if row[3] == "0A" and row[1][-4:] in ports]
    assert {port for _, port in listening} == ports
    assert {address[-8:] for address, _ in listening} == {"0100007F"}


def test_ports_must_differ(identity: Path, served: LocalTriton) -> None:
    with pytest.raises(ServerError, match=r"^grpc can't have port 1;"):
        LocalTriton(identity, "a", http_port=1, grpc_port=1).__enter__()
