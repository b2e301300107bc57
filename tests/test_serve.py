"""The local Triton, for real: what it serves, what it says when it can't, what it leaves behind."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
import tritonclient.http as triton_http

TEMPLATE = Path(__file__).resolve().parents[1] / "template"
sys.path.insert(0, str(TEMPLATE))

from tools.serve import EXIT_TIMEOUT_S, LocalTriton, ServerError, main  # noqa: E402

TENSORS = """
max_batch_size: 8
input { name: "IN" data_type: TYPE_FP32 dims: [4] }
output { name: "OUT" data_type: TYPE_FP32 dims: [4] }
"""
IDENTITY = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "IN") for request in requests]
        tensors = [pb_utils.Tensor("OUT", tensor.as_numpy()) for tensor in inputs]
        return [pb_utils.InferenceResponse([tensor]) for tensor in tensors]
"""


def write_model(repository: Path, name: str, config: str, **files: str) -> Path:
    """Write a model with one version; return its version folder."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config)
    for file, text in files.items():
        (version / f"{file}.py").write_text(text)
    return version


def write_python(repository: Path, name: str, code: str = IDENTITY, tensors: str = TENSORS) -> None:
    write_model(repository, name, f'backend: "python"\n{tensors}', model=code)


def write_ensemble(repository: Path, name: str, *models: str) -> None:
    """A chain of models that each read IN and write OUT."""
    names = ["IN", *(f"T{i}" for i in range(1, len(models))), "OUT"]
    steps = "".join(
        f'step {{ model_name: "{model}" model_version: -1 '
        f'input_map {{ key: "IN" value: "{names[i]}" }} '
        f'output_map {{ key: "OUT" value: "{names[i + 1]}" }} }}\n'
        for i, model in enumerate(models)
    )
    config = f'platform: "ensemble"\n{TENSORS}ensemble_scheduling {{\n{steps}}}\n'
    (write_model(repository, name, config) / "README").write_text("Triton wants a version folder.")


def infer(url: str, model: str, **arrays: Any) -> dict[str, Any]:
    """All outputs of one request."""
    types = {"float32": "FP32", "object": "BYTES", "int64": "INT64"}
    inputs = []
    for name, array in arrays.items():
        tensor = triton_http.InferInput(name, list(array.shape), types[str(array.dtype)])
        inputs.append(tensor.set_data_from_numpy(array))
    with triton_http.InferenceServerClient(url.removeprefix("http://")) as client:
        result = client.infer(model, inputs)
        return {o["name"]: result.as_numpy(o["name"]) for o in result.get_response()["outputs"]}


def processes(repository: Path) -> list[str]:
    """Command lines of the Triton of this repository, and of its stubs."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(repository) in command and "/triton" in command:
                found.append(command)
    return found


def server_id(repository: Path) -> str:
    return next(re.findall(r"--id=(\S+)", " ".join(processes(repository))).__iter__())


def assert_nothing_left(repository: Path, name: str, *ports: int) -> None:
    """`name` begins the names of the server's shared memory."""
    deadline = time.monotonic() + 2  # a killed process takes a moment to go
    while (left := processes(repository)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []
    assert [region for region in os.listdir("/dev/shm") if region.startswith(name)] == []
    for port in ports:
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", port)) != 0, f"port {port} still answers"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "models"
    path.mkdir()
    return path


@pytest.fixture
def identity(repository: Path) -> Path:
    write_python(repository, "a")
    return repository


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalTriton]:
    """One server with a chain of two Python models, for tests that only ask it something."""
    repository = tmp_path_factory.mktemp("served")
    write_python(repository, "a")
    write_python(repository, "b")
    write_python(repository, "where", "import sys, os\nPATHS = sys.path\n" + IDENTITY)
    write_ensemble(repository, "chain", "a", "b")
    with LocalTriton(repository, "chain") as triton:
        yield triton


def test_ensemble_answers(served: LocalTriton) -> None:
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert np.array_equal(infer(served.http_url, "chain", IN=rows)["OUT"], rows)


def test_metrics_and_grpc_answer(served: LocalTriton) -> None:
    with urlopen(served.metrics_url, timeout=5) as answer:
        assert 'nv_inference_request_success{model="chain"' in answer.read().decode()
    host, port = served.grpc_url.removeprefix("grpc://").split(":")
    socket.create_connection((host, int(port)), timeout=5).close()


def test_ports_are_on_loopback_only(served: LocalTriton) -> None:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ports = {served.http_port, served.grpc_port, served.metrics_port}
    local = {row[1] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) in ports}
    assert {address.split(":")[0] for address in local} == {"0100007F"}
    assert len(local) == len(ports)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import nosuch", r"failed to load 'b'.*No module named 'nosuch' \(.*/b/1/model.py, line 1\)"),
        ("def f(:", r"failed to load 'b'.*SyntaxError: invalid syntax"),
        ("x = 1", r"failed to load 'b'.*has no attribute 'TritonPythonModel'"),
        (
            IDENTITY + "    def initialize(self, args): raise ValueError('3x3,\\nnot 4x4 \"ü\"')",
            r"failed to load 'b'.*ValueError: 3x3, not 4x4 \"ü\" \(.*model.py, line 10\)",
        ),
        ("import os; os._exit(1)", r"failed to load 'b'.*Stub process 'b_0' is not healthy"),
    ],
)
def test_broken_code_is_the_only_reason(repository: Path, code: str, text: str) -> None:
    write_python(repository, "a")
    write_python(repository, "b", code)
    write_ensemble(repository, "chain", "a", "b")
    write_ensemble(repository, "outer", "chain", "a")
    assert_refused(repository, text)


def assert_refused(repository: Path, *texts: str, **options: Any) -> None:
    """One line for each reason, nothing more, and nothing left behind but the log."""
    before = shm()
    with pytest.raises(ServerError) as caught, LocalTriton(repository, "a", **options):
        pass
    first, *reasons, log = str(caught.value).splitlines()
    assert first == f"Triton can't serve {repository}"
    assert len(reasons) == len(texts), reasons
    for text, reason in zip(texts, reasons, strict=True):
        assert re.search(text, reason)
    file = Path(log.removeprefix("log: "))
    assert os.listdir(file.parent) == ["triton.log"]
    assert_nothing_left(repository)
    assert shm() <= before


def broken_config(repository: Path) -> None:
    write_model(repository, "b", "nosuch: 3\n")


def wrong_types(repository: Path) -> None:
    write_python(repository, "b", tensors=TENSORS.replace("FP32", "INT32"))
    write_ensemble(repository, "chain", "a", "b")
    write_ensemble(repository, "outer", "chain")


def unknown_model(repository: Path) -> None:
    write_ensemble(repository, "chain", "a", "nosuch")
    write_ensemble(repository, "outer", "chain")


def stray_folder(repository: Path) -> None:
    (repository / "docs").mkdir()


def no_version(repository: Path) -> None:
    (repository / "b").mkdir()
    (repository / "b" / "config.pbtxt").write_text(f'backend: "python"\n{TENSORS}')


def no_code(repository: Path) -> None:
    write_model(repository, "b", f'backend: "python"\n{TENSORS}')


def unknown_backend(repository: Path) -> None:
    write_model(repository, "b", f'backend: "nosuch"\n{TENSORS}')


@pytest.mark.parametrize(
    ("add", "text"),
    [
        (broken_config, r"'b'.*config.pbtxt: 1:7: .*has no field named \"nosuch\""),
        (wrong_types, r"in ensemble chain, ensemble tensor T1: inconsistent data type"),
        (unknown_model, r"ensemble chain contains models that are not available.*: nosuch"),
        (stray_folder, r"'docs'.*docs/config.pbtxt: No such file"),
        (no_version, r"'b': at least one version must be available"),
        (no_code, r"Python model file not found in .*b/1/model.py"),
        (unknown_backend, r"unable to find backend library for backend 'nosuch'"),
    ],
)
def test_broken_repository(identity: Path, add: Any, text: str) -> None:
    add(identity)
    assert_refused(identity, text)


def test_each_root_cause_has_a_line(identity: Path) -> None:
    write_python(identity, "b", "import nosuch")
    broken = identity / "c"
    broken.mkdir()
    (broken / "config.pbtxt").write_text("nosuch: 3\n")
    assert_refused(identity, "'c'", "'b'")


def test_timeout_names_the_model(repository: Path) -> None:
    write_python(repository, "a", "import time; time.sleep(60)")
    assert_refused(repository, r"not ready after 1 s; still loading: a", timeout=1)


def test_unknown_flag(identity: Path) -> None:
    assert_refused(identity, r"unrecognized option '--nosuch=1'", server_args=["--nosuch=1"])


@pytest.mark.parametrize("api", ["http", "grpc", "metrics"])
def test_port_in_use(identity: Path, served: LocalTriton, api: str) -> None:
    ports: dict[str, Any] = {f"{api}_port": getattr(served, f"{api}_port")}
    with pytest.raises(ServerError, match=r"^port \d+ is in use;"):
        LocalTriton(identity, "a", **ports).__enter__()


def test_port_taken_meanwhile_is_not_taken_for_ours(identity: Path) -> None:
    with socket.socket() as other:  # bound but silent, so only Triton finds out
        other.bind(("127.0.0.1", 0))
        assert_refused(identity, r"already in use", grpc_port=other.getsockname()[1])


def test_model_that_is_not_there(identity: Path) -> None:
    with pytest.raises(ServerError, match="there is no model 'b'; it has a$"):
        LocalTriton(identity, "b").__enter__()


@pytest.mark.parametrize(
    ("package", "version", "text"),
    [
        ("numpy", "2.1.0", "needs numpy<2, here is 2.1.0"),
        ("numpy", "", "needs numpy<2, here is none"),
        ("nvidia-pytriton", "", "pip install nvidia-pytriton==0.7.0"),
    ],
)
def test_wrong_environment(
    identity: Path, monkeypatch: pytest.MonkeyPatch, package: str, version: str, text: str
) -> None:
    versions = {"numpy": "1.26.4", "nvidia-pytriton": "0.7.0", package: version}
    monkeypatch.setattr("tools.serve._version", versions.__getitem__)
    with pytest.raises(ServerError, match=re.escape(text)):
        LocalTriton(identity, "a").__enter__()


def test_wrong_machine(identity: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    with pytest.raises(ServerError, match="runs on Linux x86_64, not on Linux arm64"):
        LocalTriton(identity, "a").__enter__()
    monkeypatch.undo()
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.31"))
    with pytest.raises(ServerError, match="needs glibc 2.35, this is 2.31"):
        LocalTriton(identity, "a").__enter__()


def test_nothing_is_left_after_a_stop(identity: Path) -> None:
    before = shm()
    with LocalTriton(identity, "a") as triton:
        ports = triton.http_port, triton.grpc_port, triton.metrics_port
        assert processes(identity)
    assert_nothing_left(identity, *ports)
    assert shm() <= before
    assert not triton.log.parent.exists()


def test_idle_client_and_endless_model_do_not_hold_up_the_stop(repository: Path) -> None:
    """Nor does the old connection block the same port for the next server."""
    write_python(repository, "a")
    endless = IDENTITY.replace("inputs =", "while True: pass\n        inputs =")
    write_python(repository, "endless", endless)
    before = shm()
    with LocalTriton(repository, "a") as triton:
        idle = http.client.HTTPConnection("127.0.0.1", triton.http_port)
        idle.request("GET", "/v2")
        idle.getresponse().read()
        body = {"name": "IN", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
        stuck = http.client.HTTPConnection("127.0.0.1", triton.http_port)
        stuck.request("POST", "/v2/models/endless/infer", json.dumps({"inputs": [body]}))
        time.sleep(0.3)
        start = time.monotonic()
    assert time.monotonic() - start < EXIT_TIMEOUT_S + 3
    assert_nothing_left(repository, triton.http_port)
    assert shm() <= before
    idle.close()
    stuck.close()
    with LocalTriton(repository, "a", http_port=triton.http_port):
        pass


def start_cli(repository: Path, model: str = "a") -> subprocess.Popen[str]:
    ports = ["--http-port=0", "--grpc-port=0", "--metrics-port=0"]
    return subprocess.Popen(
        [sys.executable, "-m", "tools.serve", str(repository), model, *ports],
        cwd=TEMPLATE,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_until_ready(process: subprocess.Popen[str]) -> list[int]:
    """Ports that it printed."""
    assert process.stdout
    lines = [process.stdout.readline() for _ in range(4)]
    return [int(port) for port in re.findall(r":(\d+)", "".join(lines))]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_command(identity: Path, number: signal.Signals) -> None:
    before = shm()
    process = start_cli(identity)
    ports = wait_until_ready(process)
    assert len(ports) == 3
    process.send_signal(number)
    out, err = process.communicate(timeout=15)
    assert (process.returncode, err) == (0, "")
    assert_nothing_left(identity, *ports)
    assert shm() <= before


@pytest.mark.parametrize("delay", [0.05, 0.2, 0.35])
def test_signal_during_the_start(repository: Path, delay: float) -> None:
    write_python(repository, "a", "import time; time.sleep(60)")
    before = shm()
    process = start_cli(repository)
    while not processes(repository) and process.poll() is None:
        time.sleep(0.01)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=15)
    assert (process.returncode, out, err) == (0, "", "")
    assert_nothing_left(repository)
    assert shm() <= before


def test_second_ctrl_c_ends_it_at_once(identity: Path) -> None:
    before = shm()
    process = start_cli(identity)
    ports = wait_until_ready(process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=15)
    assert process.returncode == 0
    assert time.monotonic() - start < 1
    assert_nothing_left(identity, *ports)
    assert shm() <= before


def test_command_says_why_and_no_more(repository: Path) -> None:
    write_python(repository, "a", "import nosuch")
    process = start_cli(repository)
    out, err = process.communicate(timeout=15)
    assert (process.returncode, out) == (1, "")
    assert "No module named 'nosuch'" in err
    assert "Traceback" not in err


def test_server_that_dies_by_itself(identity: Path) -> None:
    before = shm()
    process = start_cli(identity)
    wait_until_ready(process)
    server = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(server[0]), signal.SIGKILL)
    _, err = process.communicate(timeout=15)
    assert process.returncode == 1
    assert err.startswith("Triton ended with exit code -9\nlog: /")
    assert_nothing_left(identity)
    assert shm() <= before


def test_eight_start_at_once(identity: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        processes = list(pool.map(lambda _: start_cli(identity), range(8)))
    try:
        ports = [port for process in processes for port in wait_until_ready(process)]
    finally:
        for process in processes:
            process.terminate()
    assert [process.communicate(timeout=30)[1] for process in processes] == [""] * 8
    assert len(set(ports)) == 24
    assert_nothing_left(identity)


def test_help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["serve", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "--metrics-port" in capsys.readouterr().out
