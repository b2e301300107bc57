"""Settings of the gateway that can't be used: a line says so, before anything is served."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from gateway_service import Service, gateway, started, wait_until
from support import NOWHERE, Generate, Project, first_fast, free_port

TRITON = f"grpc://127.0.0.1:{NOWHERE}"


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    return generate(extras=["gateway"])


def refused(project: Project, port: int, **environment: str) -> str:
    """Return the line that the gateway ends with."""
    given = {"TRITON_URL": TRITON} | environment
    with started(project, f"--port={port}", **given) as process:
        return str(process.communicate(timeout=20)[1], "utf-8")


KEY = "x-api-key"
WRONG = {
    ("GATEWAY_CONCURRENCY", "many"): "GATEWAY_CONCURRENCY is many; write a number",
    ("GATEWAY_CONCURRENCY", "0"): "GATEWAY_CONCURRENCY is 0, and lets nothing in; write more",
    ("GATEWAY_TIMEOUT_S", "0"): "GATEWAY_TIMEOUT_S is 0, and lets nothing in; write more",
    ("GATEWAY_ADAPT", "2"): "GATEWAY_ADAPT is 2; write 1 or 0",
    ("GATEWAY_BATCH", "2"): "GATEWAY_BATCH is 2; write 1 or 0",
    ("GATEWAY_ROOT_PATH", "api"): "GATEWAY_ROOT_PATH is api; write a path as /api",
    ("GATEWAY_ROOT_PATH", "/api/"): "GATEWAY_ROOT_PATH is /api/; write a path as /api",
    ("GATEWAY_CORS", "a.example"): "GATEWAY_CORS is a.example; write origins as https://HOST, or *",
    (
        "GATEWAY_API_KEYS",
        " ,",
    ): "GATEWAY_API_KEYS is  ,; write keys with commas between them, or unset it",
    ("TRITON_URL", "grpc:"): "TRITON_URL is grpc:; write http://HOST:PORT or grpc://HOST:PORT",
}


@pytest.mark.parametrize("setting", first_fast(WRONG, 3), ids="=".join)
def test_a_wrong_setting_is_a_line(project: Project, setting: tuple[str, str]) -> None:
    variable, value = setting
    assert refused(project, free_port(), **{variable: value}) == WRONG[setting] + "\n"


@pytest.mark.parametrize("file", ["/proc/self/mem", "/nowhere", "/dev/null"])
def test_a_file_of_keys_that_can_not_be_read_is_a_line(project: Project, file: str) -> None:
    given = {"TRITON_URL": TRITON, "GATEWAY_API_KEYS_FILE": file}
    with started(project, f"--port={free_port()}", **given) as process:
        said = process.communicate(timeout=20)[1].decode()
    assert re.fullmatch(f"GATEWAY_API_KEYS_FILE: .*{file}.*\n", said)
    assert process.returncode == 1


def test_a_port_that_is_none_is_a_line(project: Project) -> None:
    line = "gateway can't have port 99999; choose another, or 0 for a free one\n"
    assert refused(project, 99999) == line


@pytest.mark.slow
def test_a_request_imports_nothing(project: Project) -> None:
    """Where files run out, an import fails, and so would what answers the error."""
    with (project / "gateway/routes.py").open("a") as file:
        file.write('\n\n@router.post("/broken")\ndef broken() -> None:\n    raise KeyError\n')
    with gateway(project, TRITON, "--workers=1", PYTHONVERBOSE="1") as it:
        size = len(it.log.read_text())
        bodies: list[Any] = [{}, b"{", b"[["]
        example = json.loads(it.ask("GET", "/openapi.json").content)["paths"]
        seen = {it.post(content, path).status for path in example for content in bodies}
        seen |= {it.ask("GET", path).status for path in ("/readyz", "/predict", "/none")}
        assert seen >= {400, 404, 405, 500, 503}
        assert re.findall("^import .*", it.log.read_text()[size:], re.MULTILINE) == []


def test_port_0_is_a_free_one(project: Project) -> None:
    with started(project, "--port=0", TRITON_URL=TRITON) as process:
        assert process.stdout
        [port] = re.findall(rb"http://127.0.0.1:([1-9]\d+)", process.stdout.readline())
        wait_until(Service(int(port), process).is_alive)


@pytest.mark.slow
def test_an_idle_connection_may_be_used_again(project: Project) -> None:
    with gateway(project, TRITON, GATEWAY_BODY_S="1") as it:  # which is for heads, too
        connection = it.connect()
        for pause in (0, 6):  # more than the 5 s of uvicorn
            time.sleep(pause)
            connection.request("GET", "/healthz")
            assert connection.getresponse().read()
        connection.sock.sendall(b"GET /healthz HTTP/1.1\r\n")  # and no more
        connection.sock.settimeout(10)
        assert connection.sock.recv(1) == b""
        connection.close()


@pytest.mark.slow
def test_a_page_of_an_origin_that_is_named_may_ask_and_read(project: Project) -> None:
    origin = "https://a.example"
    with gateway(project, TRITON, GATEWAY_CORS=f"{origin}, https://b.example") as it:
        asks = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": KEY}
        before = it.ask("OPTIONS", "/predict", Origin=origin, **asks)
        assert before.headers["Access-Control-Allow-Origin"] == origin
        assert KEY in before.headers["Access-Control-Allow-Headers"].lower()
        other = it.ask("OPTIONS", "/predict", Origin="https://c.example", **asks)
        assert (other.status, other.headers["Access-Control-Allow-Origin"]) == (400, None)
        answer = it.ask("GET", "/readyz", Origin=origin)
        assert answer.headers["Access-Control-Expose-Headers"] == "Retry-After, X-Request-ID"
