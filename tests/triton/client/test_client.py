"""A project's client on a real Triton: each transport, and what a call may come to."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import json
import multiprocessing
import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_faults_support import regions
from client_support import BUSY, COUNT, STREAM, Served, options, package, serving, stream, types  # noqa: F401
from support import PIPELINES, ROOT, UNUSUAL, Generate, Project, run, step, succeed
from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import aio  # type: ignore[import-untyped]

NOWHERE = "127.0.0.1:1"  # where no server answers
DIGITS = ["2", "6", "7"]


@pytest.fixture(scope="module")
def digits(generate: Generate) -> Iterator[Served]:
    with serving(generate(extras=["shared-memory"])) as server:
        yield server


@pytest.fixture(scope="module")
def images(default_project: Project) -> list[bytes]:
    return [(default_project / f"samples/digit-{digit}.jpg").read_bytes() for digit in DIGITS]


transports = pytest.mark.parametrize("transport", ["http", "grpc", "asyncio"])


@transports
@options
def test_more_rows_than_a_request_may_have_come_back_in_order(
    digits: Served, images: list[bytes], transport: str, options: dict[str, Any]
) -> None:
    answer = digits.call(transport, "image_classification", IMAGE=images * 9, options=options)
    assert digits.module.text(answer.LABEL)[:, 0].tolist() == DIGITS * 9
    assert answer.SCORE.shape == (27, 1)
    assert answer.SCORE.dtype == np.float32
    assert not regions()


@transports
@pytest.mark.parametrize("row", [0, 13, 26])
def test_an_error_names_the_row(
    digits: Served, images: list[bytes], transport: str, row: int
) -> None:
    """It is the row of the call, not that of the request which it was in."""
    given = images * 9
    given[row] = b"nonsense"
    with pytest.raises(digits.module.InvalidInput, match=f"IMAGE, row {row}: its 8 bytes") as error:
        digits.call(transport, "image_classification", given)
    assert error.value.row == row


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ([1, 2], "IMAGE is BYTES: int is not a text; give str or bytes"),
        (["x", None], "IMAGE is BYTES: NoneType is not a text"),
        ([False], "IMAGE is BYTES: bool is not a text"),
        ([["a", "b"]], r"IMAGE has shape \[1, 2\]; it must be \[-1, 1\]"),
        (None, "IMAGE is missing; it is an input of image_classification"),
        ([], "IMAGE has no rows; give one or more"),
    ],
)
def test_a_wrong_value_is_named(digits: Served, image: Any, text: str) -> None:
    with pytest.raises(digits.module.InvalidInput, match=text) as error:
        digits.call("grpc", "image_classification", IMAGE=image)
    assert error.value.row is None


@transports
def test_a_deadline_is_kept(digits: Served, images: list[bytes], transport: str) -> None:
    with pytest.raises(digits.module.DeadlineExceeded, match=r"no answer in 0\.001 s"):
        digits.call(transport, "image_classification", images * 100, timeout=0.001)


@transports
def test_a_server_that_is_not_there(digits: Served, transport: str) -> None:
    """It is tried again a few times, and no longer."""
    digits.urls |= {"http": f"http://{NOWHERE}", "grpc": f"grpc://{NOWHERE}", "asyncio": f"grpc://{NOWHERE}"}  # fmt: skip
    try:
        start = time.monotonic()
        with pytest.raises(digits.module.Unavailable, match="refused"):
            digits.call(transport, "image_classification", ["x"])
        assert time.monotonic() - start < 5
        assert not digits.call(transport, "ready")
    finally:
        digits.__init__(digits.project, digits.triton, digits.module)  # type: ignore[misc]


@transports
def test_one_output_alone(digits: Served, images: list[bytes], transport: str) -> None:
    given = {"IMAGE": np.array([images[:1]], dtype=object)}
    assert list(digits.call(transport, "infer", given, outputs=["SCORE"])) == ["SCORE"]
    for outputs, text in (["SCOR"], "SCOR is not an output of"), ([], "outputs: name one or more"):
        with pytest.raises(digits.module.InvalidInput, match=text) as error:
            digits.call(transport, "infer", given, outputs=outputs)
        assert error.value.row is None


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_threads_share_a_client(digits: Served, images: list[bytes], protocol: str) -> None:
    with digits.module.Client(digits.urls[protocol]) as client:
        labels: list[list[Any]] = []

        def ask() -> None:
            answer = client.image_classification(images * 3)
            labels.append(digits.module.text(answer.LABEL)[:, 0].tolist())

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert labels == [DIGITS * 3] * 8


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_synchronous_client_is_usable_under_an_event_loop(
    digits: Served, images: list[bytes], protocol: str
) -> None:
    async def call() -> Any:
        return digits.call(protocol, "image_classification", images * 9)

    assert len(asyncio.run(call()).LABEL) == 27


def test_a_connection_that_the_server_closed_is_made_anew(
    digits: Served, images: list[bytes]
) -> None:
    with digits.module.Client(digits.urls["http"], retries=0) as client:
        client.image_classification(images)
        kept = client._transport._pool.pool.queue[-1].sock
        kept.shutdown(socket.SHUT_RDWR)  # as it looks from here
        assert len(client.image_classification(images).LABEL) == 3


def test_a_url_that_is_none(digits: Served) -> None:
    for url in (
        "127.0.0.1:8000",
        "ftp://x",
        "grpc://x/path",
        "http://x:abc",
        "http://x?y",
    ):
        with pytest.raises(ValueError, match=re.escape(url)):
            digits.module.Client(url)
    with pytest.raises(ValueError, match="write grpc://host:port"):
        digits.module.AsyncClient("http://127.0.0.1:8000")


@pytest.mark.parametrize("url", ["http://u:s3cret@x", "grpcs://u:s3cret@x:1", "http://u:s3/cret@x"])
def test_a_url_with_a_password_is_refused_and_not_printed(digits: Served, url: str) -> None:
    with pytest.raises(ValueError, match="the URL has a user or a password") as raised:
        digits.module.Client(url)
    assert "cret" not in str(raised.value)
    program = (sys.executable, "-m", digits.project.package, "infer", "--help")
    assert "cret" not in succeed(digits.project.run(*program, TRITON_URL=url))


def test_options_that_are_none(digits: Served, tmp_path: Path) -> None:
    file = str(tmp_path / "a.pem")
    with pytest.raises(ValueError, match=r"root_certificates .*a\.pem: there is no such file"):
        digits.module.Tls(root_certificates=file)
    Path(file).touch()
    with pytest.raises(ValueError, match="private_key and certificate_chain belong together"):
        digits.module.Tls(certificate_chain=file)
    for client in (digits.module.Client, digits.module.AsyncClient):
        with pytest.raises(ValueError, match="write grpcs://x"):
            client("grpc://x", tls=digits.module.Tls())
        with pytest.raises(ValueError, match="in_flight is 0"):
            client("grpc://x", in_flight=0)


@transports
def test_a_time_that_has_no_end_or_is_none(
    digits: Served, images: list[bytes], transport: str
) -> None:
    answer = digits.call(transport, "image_classification", images, timeout=float("inf"))
    assert len(answer.LABEL) == 3
    with pytest.raises(digits.module.InvalidInput, match="timeout is not a number"):
        digits.call(transport, "image_classification", images, timeout=float("nan"))
    assert not digits.call(transport, "ready", timeout=0)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_closed_client_says_so(digits: Served, images: list[bytes], protocol: str) -> None:
    client = digits.module.Client(digits.urls[protocol])
    for many in (1, 9):
        client.image_classification(images * many)
        client.close()
        with pytest.raises(digits.module.InferenceError, match="the client is closed"):
            client.image_classification(images * many)
        client = digits.module.Client(digits.urls[protocol])
    client.close()


def test_a_closed_asyncio_client_says_so(digits: Served, images: list[bytes]) -> None:
    async def call() -> None:
        async with digits.module.AsyncClient(digits.urls["grpc"]) as client:
            await client.image_classification(images)
        await client.image_classification(images)

    with pytest.raises(digits.module.InferenceError, match="the client is closed"):
        asyncio.run(call())


def test_a_connection_that_is_given_for_a_host(digits: Served, images: list[bytes]) -> None:
    """As the replicas of Ray Serve give one to the server in their own process."""

    async def call() -> Any:
        given = digits.module.runtime.grpc_transport.in_process
        given["in-process"] = aio.InferenceServerClient(digits.urls["grpc"].removeprefix("grpc://"))
        try:
            async with digits.module.AsyncClient("grpc://in-process") as client:
                return await client.image_classification(images)
        finally:
            given.clear()

    assert len(asyncio.run(call()).LABEL) == len(images)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a certificate of localhost, signed by itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    succeed(run(*command.split(), *names, cwd=folder))
    return folder / "cert.pem", folder / "key.pem"


@contextlib.contextmanager
def tls_front(url: str, certificate: tuple[Path, Path]) -> Iterator[int]:
    """Yield the port of what takes TLS off for a server that has none, as a gateway does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    host, _, port = url.rpartition("/")[2].partition(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def forward(source: socket.socket, target: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while data := source.recv(1 << 16):
                    target.sendall(data)
                target.shutdown(socket.SHUT_RDWR)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    secure = context.wrap_socket(listener.accept()[0], server_side=True)
                    plain = socket.create_connection((host, int(port)))
                    for pair in ((secure, plain), (plain, secure)):
                        threading.Thread(target=forward, args=pair, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]


def test_https(digits: Served, images: list[bytes], certificate: tuple[Path, Path]) -> None:
    with tls_front(digits.urls["http"], certificate) as port:
        tls = digits.module.Tls(root_certificates=str(certificate[0]))
        with digits.module.Client(f"https://localhost:{port}", tls=tls) as client:
            assert len(client.image_classification(images).LABEL) == 3
    with (
        tls_front(digits.urls["http"], certificate) as port,
        digits.module.Client(f"https://localhost:{port}") as client,
        pytest.raises(digits.module.ServerFailure, match="certificate verify failed"),
    ):
        client.image_classification(images)


@pytest.mark.slow
def test_secure_grpc_and_headers(
    default_project: Project, images: list[bytes], certificate: tuple[Path, Path]
) -> None:
    """Triton has TLS of its own, and restricts an API to those who know a header."""
    secure = ["--grpc-use-ssl=true", f"--grpc-server-cert={certificate[0]}"]
    secure += [f"--grpc-server-key={certificate[1]}", "--grpc-restricted-protocol=inference:k=v"]
    with serving(default_project, *secure, "--http-restricted-api=inference:k=v") as server:
        port = server.urls["grpc"].rpartition(":")[2]
        server.urls["grpc"] = server.urls["asyncio"] = f"grpcs://localhost:{port}"
        tls = server.module.Tls(root_certificates=str(certificate[0]))
        for transport in server.urls:
            secure_only = {} if transport == "http" else {"tls": tls}
            given: dict[str, Any] = {"IMAGE": images, "options": {**secure_only, "retries": 0}}
            with pytest.raises(server.module.InferenceError, match="restricted, expecting header"):
                server.call(transport, "image_classification", **given)
            given["options"] = {**secure_only, "headers": {"triton-grpc-protocol-k": "v", "K": "v"}}
            assert len(server.call(transport, "image_classification", **given).LABEL) == 3


def command(server: Served, *arguments: str) -> Any:
    program = (sys.executable, "-m", server.project.package, "infer", "--url", server.urls["http"])
    return server.project.run(*program, *arguments)


def test_command_line(digits: Served) -> None:
    sample = str(digits.project / "samples/digit-7.jpg")
    other = "@" + str(digits.project / "samples/digit-2.jpg")
    lines = succeed(command(digits, "--image", sample, "--image", other)).splitlines()
    assert [line.split()[0] for line in lines] == ["LABEL", "7", "2"]
    printed = succeed(command(digits, "--input", f"IMAGE={sample}", "--format", "json"))
    assert json.loads(printed)["LABEL"] == [["7"]]
    assert "IMAGE, STRING[1]" in succeed(command(digits, "--help"))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--image", "nothing"], "IMAGE, row 0: its 7 bytes"),
        (["--image", "@nothing"], "No such file or directory: 'nothing'"),
        ([], "IMAGE is missing"),
        (["--input", "IMAGES=x"], "IMAGES is not an input of image_classification"),
        (["--input", "IMAGE"], "--input IMAGE: write NAME=VALUE"),
        (["--image", "x", "--url", "nowhere"], "nowhere is not a server"),
        (["--image", "x", "--root-certificates", "no.pem"], "no.pem: there is no such file"),
    ],
)
def test_command_line_says_what_is_wrong_in_a_line(
    digits: Served, arguments: list[str], line: str
) -> None:
    process = command(digits, *arguments)
    assert process.returncode == 1
    assert line in process.stderr
    assert process.stderr.count("\n") == 1


GIVEN: dict[str, Any] = {
    "B": [True, False, True],
    "I": [[2**62, -1], [0, 1], [2, 3]],
    "U": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "H": [0.5, 1, 2],
    "class_": [[["", "é"]], [[b"\xff", b""]], [["x", "y"]]],
}


@transports
@options
def test_each_type_comes_back_as_it_went(
    types: Served, transport: str, options: dict[str, Any]
) -> None:
    """Names are keywords, an optional input is left out, and dims vary."""
    answer = types.call(transport, "types", **GIVEN, options=options)
    assert answer.B2.tolist() == [[True], [False], [True]]
    assert answer.I2.tolist() == GIVEN["I"]
    np.testing.assert_array_equal(answer.U2, GIVEN["U"])
    assert answer.H2.dtype == np.float16
    assert answer.H2[:, 0].tolist() == GIVEN["H"]
    assert answer.import_.tolist() == [[[b"", "é".encode()]], [[b"\xff", b""]], [[b"x", b"y"]]]


@transports
def test_what_tritonclient_would_send_as_something_else(types: Served, transport: str) -> None:
    """It makes the text `b'x'` of NumPy's own bytes. NaN and infinity are kept."""
    cells = [[list(np.array([b"x", b"yz"]))]] * 3
    answer = types.call(transport, "types", **(GIVEN | {"class_": cells, "H": [np.inf, np.nan, 1]}))
    assert answer.import_.tolist() == [[[b"x", b"yz"]]] * 3
    assert np.isinf(answer.H2[0, 0])
    assert np.isnan(answer.H2[1, 0])


@transports
def test_a_row_that_the_server_does_not_name_is_found(types: Served, transport: str) -> None:
    with pytest.raises(types.module.InvalidInput, match=r"row 2: .*too much") as error:
        types.call(transport, "types", **GIVEN, timeout_=[1.0, 2.0, 6.0])
    assert error.value.row == 2


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"I": [[0.5, 1]] * 3}, "I is INT64: the values are float64; convert them"),
        ({"U": [[256]] * 3}, "U is UINT8: it holds 0 to 255"),
        ({"B": [1, 0, 1]}, "B is BOOL: the values are int64; convert them"),
        ({"H": ["x"] * 3}, "H is FP16: the values are <U1; convert them"),
        ({"H": [1, 70000, 1]}, "H is FP16: 70000 is beyond its range"),
        ({"B": [True]}, "all inputs must have as many rows; B has 1, I has 3"),
    ],
)
def test_no_value_is_changed_silently(types: Served, wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(types.module.InvalidInput, match=text):
        types.call("http", "types", **(GIVEN | wrong))


def test_the_command_line_takes_values_of_each_type(types: Served, tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", np.arange(3, dtype=np.uint8))
    values = ["--b", "true", "--i", "[1, 2]", "--u", str(tmp_path / "u.npy"), "--h", "0.5"]
    values += ["--class", '[["a", "é"]]', "--input", "timeout=1.5", "--format", "json"]
    outputs = json.loads(succeed(command(types, *values)))
    values[values.index("0.5")] = "NaN"
    assert json.loads(succeed(command(types, *values)))["H2"] == [[None]]
    values[values.index("json")] = "table"
    values[values.index('[["a", "é"]]')] = '[["a\\nb", "\\u001b[1m"]]'
    assert succeed(command(types, *values)).splitlines()[1].endswith("nan  a\\nb | \\x1b[1m")
    (tmp_path / "u.npy").write_bytes(b"")
    process = command(types, *values)
    assert (process.returncode, process.stderr.count("\n")) == (1, 1)
    assert "u.npy: No data left in file" in process.stderr
    assert outputs == {"B2": [[True]], "I2": [[1, 2]], "U2": [[0, 1, 2]], "H2": [[0.5]], "import": [[["a", "é"]]]}  # fmt: skip


def test_bf16_is_float32_to_the_caller(generate: Generate) -> None:
    """The local Triton can't serve it, so what is sent, and what is read, is looked at without a server."""
    with package(generate(**UNUSUAL["BF16"])) as module:
        batches, bodies, over_grpc, transport = (
            importlib.import_module(f"{module.__name__}.runtime.{name}")
            for name in ("batches", "bodies", "grpc_transport", "transport")
        )
        given = batches.arrays({"A": [[1, -2.5, 0.15, 3]]})
        [sent], _ = over_grpc.encode_request(transport.Request(given, ["B"], None))
        assert (sent.datatype(), sent._get_content()[:4]) == ("BF16", b"\x80\x3f\x20\xc0")
        answer = grpc.service_pb2.ModelInferResponse(raw_output_contents=[sent._get_content()])
        answer.outputs.add(name="B", datatype="BF16", shape=[1, 4])
        assert bodies.encode_tensor(given["A"]) == sent._get_content()
        head: dict[str, Any] = {"name": "B", "datatype": "BF16", "shape": [1, 4]}
        head["parameters"] = {"binary_data_size": 8}
        body = json.dumps({"outputs": [head]}).encode()
        for array in (
            over_grpc.decode_result(grpc.InferResult(answer), ["B"])["B"],
            bodies.decode(body + sent._get_content(), len(body), ["B"], "host")["B"],
        ):
            assert array.dtype == np.float32
            np.testing.assert_allclose(array, [[1, -2.5, 0.15, 3]], rtol=1e-2)


@pytest.mark.slow
def test_names_that_are_no_identifiers(generate: Generate) -> None:
    with serving(generate(**PIPELINES["awkward names"])) as server:
        given = {"input_x2e_1": np.zeros((9, 4)), "Merchant_x20_Name": ["x"] * 9}
        for transport in server.urls:
            answer = server.call(transport, "Awkward_names_2", **given, merchant_x20_name=["y"] * 9)
            assert (answer._389.shape, answer.class_.shape) == ((9, 2), (9, 1))


@pytest.mark.slow
@transports
def test_a_lone_request_without_a_batch(generate: Generate, transport: str) -> None:
    with serving(generate(**UNUSUAL["optional input first"])) as server:
        assert server.call(transport, "optional", X=[1, 2, 3]).Y.shape == (2,)
        assert server.call(transport, "optional", [7], OPTION=[1, 2, 3]).Y.shape == (2,)
        with pytest.raises(server.module.InvalidInput, match="X has shape") as error:
            server.call(transport, "optional", X=[[1]])
        assert error.value.row is None


def test_shared_memory_is_an_extra(stream: Served) -> None:
    for client in (stream.module.Client, stream.module.AsyncClient):
        with pytest.raises(ValueError, match="write `shared-memory` in `extras` of"):
            client(stream.urls["grpc"], shared_memory=True)


streams = pytest.mark.parametrize("transport", ["grpc", "asyncio"])


@streams
def test_answers_come_as_they_are_made(stream: Served, transport: str) -> None:
    assert stream.call(transport, "stream_", N=[0]) == []
    answers = stream.call(transport, "stream_", N=[3, 1])
    assert [answer.I[:, 0].tolist() for answer in answers] == [[0, 0], [1, 1], [2, 2]]
    assert [answer["I"].tolist() for answer in stream.call(transport, "stream", {"N": [1]})] == [
        [[0]]
    ]


@streams
@pytest.mark.parametrize(
    ("rows", "kind", "text"),
    [
        ([-1], "InvalidInput", "N: below 0"),
        ([100], "ServerFailure", "step count failed"),
        ([1, 1, 1], "InvalidInput", "batch-size must be <= 2"),
        ([0.5], "InvalidInput", "N is INT32: the values are float64; convert them"),
    ],
)
def test_a_stream_that_fails(
    stream: Served, transport: str, rows: Any, kind: str, text: str
) -> None:
    with pytest.raises(getattr(stream.module, kind), match=text):
        stream.call(transport, "stream_", rows)


@streams
def test_a_stream_has_a_deadline(stream: Served, transport: str) -> None:
    with pytest.raises(stream.module.DeadlineExceeded):
        stream.call(transport, "stream_", [20], timeout=0.2)


def test_a_stream_that_is_left(stream: Served) -> None:
    with stream.module.Client(stream.urls["grpc"]) as client:
        answers = client.stream({"N": [20]})
        assert next(answers)["I"].tolist() == [[0]]
        answers.close()
    with (
        stream.module.Client(stream.urls["http"]) as client,
        pytest.raises(ValueError, match="a decoupled ensemble answers over gRPC"),
    ):
        list(client.stream_([1]))


def test_a_forked_process_leaves_a_stream_alone(stream: Served) -> None:
    """To stop it there, which closing the generator does, would hang in gRPC."""
    with stream.module.Client(stream.urls["grpc"]) as client:
        answers = client.stream({"N": [20]})
        next(answers)
        for call in (answers.close, answers.__next__):
            child = multiprocessing.get_context("fork").Process(target=call)
            child.start()
            child.join(10)
            exit_code = child.exitcode
            child.kill()
            assert exit_code is not None, "the forked process hangs"
        assert len(list(answers)) == 19


@pytest.mark.slow
@transports
def test_a_sequence(generate: Generate, transport: str) -> None:
    with serving(generate(**UNUSUAL["sequence"])) as server:
        for place in ({"start": True}, {}, {"end": True}):
            assert server.call(transport, "sequence", A=[[1, 2]], sequence=7, **place).B.shape == (1, 2)  # fmt: skip
        with pytest.raises(server.module.InvalidInput, match="must specify the START flag"):
            server.call(transport, "infer", {"A": [[1, 2]]}, 7)
        assert server.call(transport, "sequence", A=[[1, 2]]).B.shape == (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["grpc", "asyncio"])
def test_a_sequence_of_streams(generate: Generate, transport: str) -> None:
    counting = step("count", ["N"], ["I"], decoupled=True, sequence={"direct": {}})
    project = generate(**STREAM | {"project_name": "streamed-sequence", "steps": [counting]})
    assert (
        "generate_stream" not in (project / "README.md").read_text()
    )  # Triton takes no sequence there
    (project / "steps/count.py").write_text(
        COUNT.replace("__call__(self,", "__call__(self, at, /,").replace(
            "+ i", "+ i + 10 * at.start + 20 * at.end"
        )
    )
    with serving(project) as server:
        for place, first in ({"start": True}, 10), ({}, 0), ({"end": True}, 20):
            answers = server.call(transport, "streamed_sequence", N=[[2]], sequence=7, **place)
            assert [answer.I.item() for answer in answers] == [first, first + 1]
        assert server.call(transport, "streamed_sequence", N=[[1]])[0].I.item() == 30
        with pytest.raises(server.module.InvalidInput, match="a request of a sequence has one row"):
            server.call(transport, "streamed_sequence", N=[[1], [2]])


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_what_a_busy_server_turns_away_is_tried_again(generate: Generate, protocol: str) -> None:
    """A full queue is UNAVAILABLE."""
    policy = {"default_queue_policy": {"max_queue_size": 1}}
    project = generate(
        project_name="busy",
        max_batch_size=1,
        tensors={"A": "FP32[1]", "B": "FP32[1]"},
        steps=[step("slow", ["A"], ["B"], batching=policy)],
    )
    (project / "steps/slow.py").write_text(BUSY)
    with serving(project) as server:
        rows = [[float(row)] for row in range(6)]
        with pytest.raises(server.module.Unavailable, match="Exceeds maximum queue size"):
            server.call(protocol, "busy", rows, options={"retries": 0, "in_flight": 6})
        time.sleep(1)
        options = {"retries": 20, "in_flight": 6}
        assert server.call(protocol, "busy", rows, options=options).B.tolist() == rows


def test_a_retry_waits_longer_each_time_and_ends(default_project: Project) -> None:
    with package(default_project) as module, module.Client(retries=4) as client:
        asked: list[Any] = []
        error = module.Unavailable("busy")

        async def fail(request: Any) -> None:
            asked.append(len(request.inputs["IMAGE"]))
            raise error

        async def pause(seconds: float) -> None:
            asked.append(seconds)

        client._send_request, client._pause = fail, pause
        with pytest.raises(module.Unavailable):
            client.image_classification(["x", "y"])
        assert asked[::2] == [2] * 5
        assert len(asked) == 9
        assert all(0 <= pause <= 0.1 * 2**i for i, pause in enumerate(asked[1::2]))
        asked.clear()
        error = module.ServerFailure("no")
        with pytest.raises(module.ServerFailure):
            client.image_classification(["x", "y"])
        assert asked == [2]


@pytest.mark.slow
def test_the_package_is_usable_alone(generate: Generate, tmp_path: Path) -> None:
    """It is installed from the project's folder, without the rest. What that leaves there is no part of it."""
    project = generate()
    project.commit()
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    succeed(project.run(sys.executable, *install, "--target", str(tmp_path / "t"), "."))
    assert project.changes() == ""
    installed = [p for p in (tmp_path / "t").iterdir() if p.suffix != ".dist-info"]
    assert [path.name for path in installed] == ["image_classification"]
    assert (installed[0] / "py.typed").exists()
    code = (
        "import sys; sys.path.insert(0, 't'); import image_classification as p; "
        "p.Client('grpc://127.0.0.1:1').close(); print(*sorted(m.partition('.')[0] for m in sys.modules))"
    )
    loaded = {*succeed(run(sys.executable, "-I", "-c", code, cwd=tmp_path)).split()}
    code = (
        "import runpy, sys; sys.path.insert(0, 't'); sys.modules['triton_ensemble'] = None; "
        "runpy.run_module('image_classification', run_name='__main__')"
    )
    [line] = run(sys.executable, "-I", "-c", code, cwd=tmp_path).stderr.splitlines()
    assert line.endswith("this command needs the project's toolkit: pip install vendor/*.whl")
    assert not loaded & {
        "triton_ensemble",
        "steps",
        "models",
        "yaml",
        "pytriton",
        "onnxruntime",
        "PIL",
    }


@pytest.mark.parametrize("name", ["decoupled", "sequence", "BF16"])
def test_both_clients_have_the_same_methods(generate: Generate, name: str) -> None:
    with package(generate(**UNUSUAL[name])) as module:
        names = {n for n in dir(module.AsyncClient) if n[0] != "_" and n != "max_batch_size"}
        assert names == {n for n in dir(module.Client) if n[0] != "_"} - {"answers", "max_batch_size"}  # fmt: skip
        for method in names:
            one, two = (getattr(client, method) for client in (module.Client, module.AsyncClient))
            assert inspect.signature(one).parameters == inspect.signature(two).parameters


@pytest.mark.parametrize("name", ["decoupled", "sequence"])
def test_no_member_of_the_client_is_hidden(generate: Generate, name: str) -> None:
    """An ensemble, or a tensor, may have any name that Triton allows."""
    table = (ROOT / "hooks/stubs/client.jinja").read_text()
    [options, members] = re.findall(r"set (?:OPTIONS|MEMBERS) = (.*?)\.split", table, re.DOTALL)
    with package(generate(**UNUSUAL[name])) as module:
        both = module.Client("grpc://x"), module.AsyncClient("grpc://x")
        public = {n for client in both for n in dir(client) if not n.startswith("_")} - {name}
        assert public <= {*re.findall(r"\w+", members)}
        code = getattr(module.Client, name).__code__
        own = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
        assert own - {"self", "A", "PROMPT"} <= {*re.findall(r"\w+", options)}
