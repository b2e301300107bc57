"""The REST gateway of generated projects, before a real Triton."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from gateway_service import Answer, Service, gateway, metric
from support import ROOT, UNUSUAL, Generate, Project, Server, run, serve, step, succeed

from triton_ensemble.facts.project import Project as Facts
from triton_ensemble.serve.container.request import messages


@pytest.fixture(scope="module")
def digits(generate: Generate) -> Iterator[Server]:
    project = generate.complete(extras=["gateway", "monitoring"])
    with serve(project) as server:
        yield server


@pytest.fixture(scope="module")
def service(digits: Server) -> Iterator[Service]:
    with gateway(digits.project, digits.urls["http"]) as service:
        yield service


def image(project: Project, name: str) -> bytes:
    return (project / f"samples/{name}").read_bytes()


def test_files_are_rows_in_their_order(service: Service, digits: Server) -> None:
    files = [
        ("IMAGE", name, image(digits.project, name)) for name in ("digit-7.jpg", "digit-6.jpg")
    ]
    answer = service.upload(*files)
    assert (answer.status, answer.json()["LABEL"]) == (200, [["7"], ["6"]])
    assert answer.json()["SCORE"][0][0] > 0.9


def test_more_rows_than_a_batch_and_one_that_is_refused(service: Service, digits: Server) -> None:
    names = ["digit-7.jpg"] * 10 + ["no-image.txt"] + ["digit-6.jpg"] * 9
    files = [
        ("IMAGE", n, b"text" if n.endswith("txt") else image(digits.project, n)) for n in names
    ]
    answer = service.upload(*files).json()
    assert answer["LABEL"] == [["7"]] * 10 + [None] + [["6"]] * 9
    [error] = answer["errors"]
    assert (error["row"], error["file"]) == (10, "no-image.txt")
    assert "not a complete JPEG or PNG" in error["error"]


def test_json_with_bytes(service: Service, digits: Server) -> None:
    import base64

    text = base64.b64encode(image(digits.project, "digit-7.jpg")).decode()
    answer = service.post({"IMAGE": [[{"base64": text}]]})
    assert answer.json()["LABEL"] == [["7"]]


SAME = """
class Step:
    def __init__(self, context):
        pass

    def __call__(self, I):
        return {"O": I}
"""
REFUSED: dict[str, tuple[int, Any, str]] = {
    "no JSON": (400, b"{", "the request is not JSON"),
    "a list": (400, [], "the request is not an object"),
    "another input": (400, {"IMAGES": [["a"]]}, "IMAGES is not an input of image_classification; its inputs are IMAGE"),
    "a long one": (400, {"x" * 1_000_000: 0}, f"{'x' * 99} is not an input of image_classification"),
    "none": (400, {}, "IMAGE is missing"),
    "a number": (400, {"IMAGE": [[1]]}, 'IMAGE, row 0: 1 is not text; write a text, or {"base64": TEXT}'),
    "no base64": (400, {"IMAGE": [[{"base64": "?"}]]}, 'IMAGE, row 0: {"base64":"?"} is not text'),
    "another key": (400, {"IMAGE": [["a"], [{"hex": "00"}]]}, 'IMAGE, row 1: {"hex":"00"} is not text'),
    "nothing": (400, {"IMAGE": [[{}]]}, "IMAGE, row 0: {} is not text"),
    "null": (400, {"IMAGE": None}, "IMAGE is missing"),
    "a null": (400, {"IMAGE": [["a"], [None]]}, "IMAGE, row 1: null is not text"),
    "ragged": (400, {"IMAGE": [["a"], ["a", "b"]]}, "IMAGE, row 1: has shape [2], and row 0 [1]; send rows"),
    "a shape": (400, {"IMAGE": [[["a"]]]}, "IMAGE has shape [1, 1, 1]"),
    "no rows": (400, {"IMAGE": []}, "IMAGE"),
    "no image": (400, {"IMAGE": [["a"]]}, "in ensemble 'image_classification', step preprocess: IMAGE, row 0"),
    "rows": (413, {"IMAGE": [["a"]] * 65}, "65 rows; a request may have 64"),
    "deep": (400, b"[" * 100_000, "the request is not JSON"),
    "almost as deep": (400, b'{"IMAGE": %s%s}' % (b"[" * 1000, b"]" * 1000), "the request is nested too deep"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_a_status_and_a_line(service: Service, name: str) -> None:
    status, content, text = REFUSED[name]
    answer = service.post(content, X_Request_ID="mine")
    assert answer.status == status, answer.content
    assert answer.json()["error"].startswith(text)
    assert answer.json()["id"] == answer.headers["X-Request-ID"] == "mine"


def test_a_file_alone(service: Service, digits: Server) -> None:
    file = image(digits.project, "digit-7.jpg")
    for kind in ("image/jpeg", "application/octet-stream", "Image/JPEG; q=1"):
        answer = service.post(file, Content_Type=kind)
        assert (answer.status, answer.json()["LABEL"]) == (200, [["7"]])
    assert service.post(b"", Content_Type="image/jpeg").status == 400
    description = service.ask("GET", "/openapi.json").json()["paths"]["/predict"]["post"]
    assert "application/octet-stream" in description["requestBody"]["content"]


# Each took a worker for seconds: 20 with 4 MB.
LISTS = {
    "rows": (413, b'{"IMAGE": [%s[]]}', b"[],"),
    "values": (400, b'{"IMAGE": [[%s""]]}', b'"",'),
    "deep": (400, b'{"IMAGE": [[[%s""]]]}', b'"",'),
    "lists of values": (400, b'{"IMAGE": [[%s[]]]}', b"[],"),
    "more than there is memory": (413, b'{"IMAGE": [%s[]]}', b"[]," * 10),
}


@pytest.mark.parametrize("kind", LISTS)
def test_lists_that_are_too_many_take_no_time(service: Service, kind: str) -> None:
    status, around, repeated = LISTS[kind]
    began = time.monotonic()
    answer = service.post(around % (repeated * 1_400_000))
    assert (answer.status, time.monotonic() - began < 10) == (status, True)


def test_forms_that_are_none(service: Service) -> None:
    kind = {"Content_Type": "multipart/form-data; boundary=x"}
    for body in (
        b"",
        b"--x",
        b"--x\r\n\r\n",
        b"nothing",
        b"--x\r\nContent-Disposition: x\r\n\r\na\r\n--x--",
    ):
        assert service.ask("POST", "/predict", body, **kind).status == 400, body
    assert service.upload(*[("IMAGE", "a.jpg", b"")] * 100).status == 413
    assert service.upload(("IMAGE", "a.jpg", b"")).status == 400
    assert service.ask("POST", "/predict", b"a", Content_Type="text/csv").status == 415


def test_it_says_what_it_is(service: Service) -> None:
    text = service.ask("GET", "/openapi.json").content
    assert b"Refusal" not in text  # a name of the code, for nobody else
    paths = json.loads(text)["paths"]
    assert "security" not in paths["/predict"]["post"]
    assert "503" in paths["/readyz"]["get"]["responses"]
    body = paths["/predict"]["post"]["requestBody"]["content"]
    assert body["application/json"]["schema"]["required"] == ["IMAGE"]
    files = body["multipart/form-data"]["schema"]["properties"]["IMAGE"]
    assert (files["items"]["format"], files["minItems"]) == ("binary", 1)
    examples = body["application/json"]["examples"]
    assert {"digit-7", "digit-7-png", "digits-2-6"} == examples.keys()
    assert "401" not in paths["/predict"]["post"]["responses"]
    answers = paths["/predict"]["post"]["responses"]["200"]["content"]
    assert "image/*" not in answers  # LABEL is a text in samples
    ok = answers["application/json"]
    assert ok["schema"]["properties"]["errors"]["items"]["required"] == ["row", "error"]
    for name, example in examples.items():
        answer = service.post(example["value"]).json()
        assert answer["LABEL"] == ok["examples"][name]["value"]["LABEL"]
    assert service.ask("GET", "/readyz").json() == {"status": "ready"}
    assert metric(service, "gateway_requests_total", route="/predict", status="200")


STEPS = ("preprocess", "classify", "label")


def test_each_step_counts_its_time(service: Service, digits: Server) -> None:
    before = service.ask("GET", "/statistics.json").json()
    service.upload(("IMAGE", "7.jpg", image(digits.project, "digit-7.jpg")))
    for _ in range(50):  # Triton counts a request after it has answered it
        after = service.ask("GET", "/statistics.json").json()
        if all(after[name]["requests"] > before[name]["requests"] for name in STEPS):
            break
        time.sleep(0.1)
    for name in STEPS:
        grown = {kind: after[name][kind] - before[name][kind] for kind in after[name]}
        assert grown["requests"] == 1
        assert 0 < grown["compute_ns"] < 30e9


def test_what_monitoring_asks_for_is_there(service: Service, digits: Server) -> None:
    """By name and labels. A real Prometheus evaluates the alerts of the same names in test_alerts.py."""
    service.upload(("IMAGE", "7.jpg", image(digits.project, "digit-7.jpg")))
    monitoring = digits.project / "deploy/monitoring"
    text = "".join((monitoring / name).read_text() for name in ("alerts.yml", "dashboard.json"))
    for name in set(re.findall(r"gateway_[a-z_]+", text)):
        assert f"\n{name}" in service.ask("GET", "/metrics").content.decode(), name
    for labels in ({"status": "200"}, {"route": "/predict"}):
        assert metric(service, "gateway_requests_total", **labels) > 0
    assert metric(service, "gateway_request_seconds_bucket", route="/predict", le="+Inf") > 0


def test_keys_rotate_without_a_restart(digits: Server, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("first\n")
    with gateway(digits.project, digits.urls["http"], GATEWAY_API_KEYS_FILE=str(file)) as service:

        def statuses(*keys: str) -> list[int]:
            return [service.post({}, X_API_Key=key).status for key in keys]

        assert statuses("first", "second", "", "f") == [400, 401, 401, 401]
        assert service.post({}, Authorization="Bearer first").status == 400
        file.write_text("second\nthird\n")
        assert statuses("first", "second", "third") == [401, 400, 400]
        assert service.ask("GET", "/healthz").status == 200
        file.write_text("clé\n")
        assert statuses("clé".encode().decode("latin-1"), "cl") == [400, 401]
        description = service.ask("GET", "/openapi.json").json()
        [predict] = description["paths"]["/predict"].values()
        assert predict["security"] == [{"key": []}]
        key = {"type": "apiKey", "in": "header", "name": "X-API-Key"}
        assert description["components"]["securitySchemes"]["key"] == key
        assert "examples" not in predict["requestBody"]["content"]["application/json"]


def test_what_no_route_takes_is_a_line_with_an_id(service: Service) -> None:
    for method, path, status in (("GET", "/nothing", 404), ("GET", "/predict", 405)):
        answer = service.ask(method, path, X_Request_ID="mine")
        assert (answer.status, answer.json()["id"]) == (status, "mine")
        assert answer.json()["error"]
    assert answer.headers["Allow"] == "POST"


KINDS = {
    "compressed": (415, {"Content_Encoding": "gzip"}, "gzip can't be read; send the request uncompressed"),
    "of curl": (
        415,
        {"Content_Type": "application/x-www-form-urlencoded"},
        "application/x-www-form-urlencoded can't be read; send Content-Type: application/octet-stream, application/json, or a form",
    ),
    "of no kind": (400, {}, "in ensemble 'image_classification', step preprocess"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_headers_say_what_a_request_is(service: Service, kind: str) -> None:
    """Without any, it is JSON."""
    status, headers, line = KINDS[kind]
    answer = service.ask("POST", "/predict", b'{"IMAGE": [["a"]]}', **headers)
    assert (answer.status, answer.json()["error"][: len(line)]) == (status, line)


def test_a_triton_that_is_not_there(digits: Server) -> None:
    with gateway(digits.project, "grpc://127.0.0.1:1") as service:
        assert service.ask("GET", "/readyz").status == 503
        assert service.ask("GET", "/healthz").status == 200
        file = image(digits.project, "digit-7.jpg")
        answer = service.upload(("IMAGE", "a.jpg", file))
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")


@pytest.mark.slow
def test_a_decoupled_pipeline_streams(generate: Generate) -> None:
    project = generate.complete(**UNUSUAL["decoupled"], extras=["gateway"])
    with serve(project) as server, gateway(project, server.urls["grpc"]) as service:
        answer = service.post({"PROMPT": ["a"]})
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.headers["X-Accel-Buffering"] == "no"  # nginx would hold events back
        events = answer.content.decode().split("\n\n")
        assert json.loads(events[0].removeprefix("data: "))["TEXT"] is not None
        [predict] = service.ask("GET", "/openapi.json").json()["paths"]["/predict"].values()
        [described] = predict["responses"]["200"]["content"]
        assert described == "text/event-stream"
        assert service.post({"PROMPTS": ["a"]}).status == 400
        assert service.ask("GET", "/readyz").status == 200
        counted = service.ask("GET", "/statistics.json").json()
        assert all(model["requests"] for model in counted.values())
        assert counted


WRONG = {  # for INT32[-1, 2], and what is said of it
    "[[[1, null]]]": "I, row 0: null is not INT32; write a whole number from -2147483648 to 2147483647",
    "[[[1, 2]], [[1, 18446744073709551616]]]": "I, row 1: 1.8446744073709552e+19 is not INT32; write a whole number",
    "[[[1, 2], [3]]]": "I, row 0: its lists are not of one length; write lists of shape [-1, 2]",
    "[[[1, 2]], [[1, 2], [3, 4]]]": "I, row 1: has shape [2, 2], and row 0 [1, 2]; send rows",
    "[[{}]]": "I, row 0: {} is not INT32; write a whole number",
    '[[[1, "%s"]]]' % ("2" * 99): 'I, row 0: "%s… is not INT32' % ("2" * 39),
    "[[[1]]]": "I has shape [1, 1, 1]; it must be [-1, -1, 2]",
    "[]": "I has no rows; give one or more",
}


@pytest.mark.slow
def test_what_is_no_tensor_is_said_by_its_row_and_an_empty_one_is(generate: Generate) -> None:
    tensors = {"I": "INT32[-1, 2]", "O": "INT32[-1, 2]"}
    steps = [step("same", ["I"], ["O"])]
    project = generate(project_name="pairs", tensors=tensors, steps=steps, extras=["gateway"])
    (project / "steps/same.py").write_text(SAME)
    succeed(project.make("repository"))
    with serve(project) as server, gateway(project, server.urls["http"]) as service:
        for rows in ("[[]]", "[[], []]", "[[[1, 2]], [[3, 4]]]"):
            answer = service.post(b'{"I": %s}' % rows.encode())
            assert (answer.status, answer.json()) == (200, {"O": json.loads(rows)})
        for rows, line in WRONG.items():
            answer = service.post(b'{"I": %s}' % rows.encode())
            assert (answer.status, answer.json()["error"][: len(line)]) == (400, line)
            if "row " in line[:8]:
                assert answer.json()["row"] == int(line[7])


ENDS = {f"INT{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)}
ENDS |= {f"UINT{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)}
HIGHEST = {"FP16": 65504.0, "FP32": 3.4028234663852886e38, "FP64": 1.7976931348623157e308}
LOWEST = {"FP16": 6e-8, "FP32": 1.401298464324817e-45, "FP64": 5e-324}
ROUNDED = {"FP16": 0.01, "FP32": 1e-7}
BEYOND = {
    **{kind: [least - 1, most + 1, 0.5] for kind, (least, most) in ENDS.items()},
    "FP16": [65520.0, -7e4],
    "FP32": [3.5e38],
}
NO_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e309", "-1e309")
ALL_TYPES = """
class Step:
    def __init__(self, context):
        pass

    def __call__(self, **inputs):
        return {f"OUT_{name}": array for name, array in inputs.items()}
"""


@pytest.mark.slow
def test_each_type_takes_its_ends_and_nothing_beyond(generate: Generate) -> None:
    """In JSON and in forms. NaN and infinity are not JSON."""
    kinds = [*ENDS, *HIGHEST]
    outputs = [f"OUT_{kind}" for kind in kinds]
    tensors = {name: f"{name.removeprefix('OUT_')}[1]" for name in (*kinds, *outputs)}
    project = generate(
        project_name="types",
        tensors=tensors,
        steps=[step("same", kinds, outputs)],
        extras=["gateway"],
    )
    (project / "steps/same.py").write_text(ALL_TYPES)
    succeed(project.make("repository"))
    with serve(project) as server, gateway(project, server.urls["http"]) as service:

        def ask(kind: str, *values: str) -> list[Answer]:
            """Send values of a type, and as many zeros of each other, as JSON and as a form."""
            given = {name: values if name == kind else ["0"] * len(values) for name in kinds}
            body = ",".join(f'"{name}":[[{"],[".join(rows)}]]' for name, rows in given.items())
            parts = [(n, "", f"[{row}]".encode()) for n, rows in given.items() for row in rows]
            return [service.post(f"{{{body}}}".encode()), service.upload(*parts)]

        good = {**ENDS, **{kind: (-most, most, LOWEST[kind]) for kind, most in HIGHEST.items()}}
        for kind, values in good.items():
            for answer in ask(kind, *map(repr, values), "1"):
                assert answer.status == 200, (kind, answer.content)
                seen = [row[0] for row in answer.json()[f"OUT_{kind}"]]
                assert seen == pytest.approx([*values, 1], rel=ROUNDED.get(kind, 0)), kind
                assert kind in ENDS or all(seen)
        for kind, beyond in BEYOND.items():
            for value in beyond:
                for answer in ask(kind, "1", repr(value)):
                    assert (answer.status, kind in answer.json()["error"]) == (400, True), value
        for text in NO_NUMBERS:
            assert [answer.status for answer in ask("FP64", "1", text)] == [400, 400]


FOUR = {"I": "INT32[1]", "F": "FP32[1]", "B": "BOOL[1]", "S": "STRING[1]"}
GIVE = """
class Step:
    def __init__(self, context):
        pass

    def __call__(self, I, F, B, S):
        return {"O": F}
"""


@pytest.mark.slow
def test_true_is_a_bool_and_nothing_else(generate: Generate) -> None:
    """NumPy takes it for 1."""
    steps = [step("give", [*FOUR], ["O"])]
    tensors = {**FOUR, "O": "FP32[1]"}
    project = generate(project_name="four", tensors=tensors, steps=steps, extras=["gateway"])
    (project / "steps/give.py").write_text(GIVE)
    succeed(project.make("repository"))
    good: dict[str, Any] = {
        "I": [[1], [2]],
        "F": [[1], [2.5]],
        "B": [[True], [False]],
        "S": [["a"], ["true"]],
    }
    with serve(project) as server, gateway(project, server.urls["http"]) as service:
        assert service.post(good).status == 200
        for name, wanted in {"I": "INT32", "F": "FP32", "S": "text"}.items():
            for rows in ([[True], [False]], [good[name][1], [True]]):
                answer = service.post({**good, name: rows})
                row = rows.index([True])
                line = f"{name}, row {row}: true is not {wanted}; write a"
                assert answer.status == 400, (name, rows)
                assert answer.json()["error"].startswith(line)
                assert answer.json()["row"] == row
        parts = [(name, "", json.dumps(rows[0]).encode()) for name, rows in good.items()]
        assert service.upload(*parts).status == 200
        answer = service.upload(*parts[1:], ("I", "", b"[true]"))
        assert answer.json()["error"].startswith("I, row 0: true is not INT32")
        assert service.post({**good, "B": [[1], [0]]}).json()["error"].startswith("B, row 0: 1 is")


BOTH = """
class Step:
    def __init__(self, context):
        pass

    def __call__(self, TEXT, NUMBER):
        return {"SAID": TEXT, "HALF": NUMBER / 2}
"""


def shapes_of_a_sample(project: Project, inputs: dict[str, Any]) -> list[list[int]]:
    """Return the shapes of the health check's request, which is read without NumPy."""
    for path in (project / "samples").glob("*.json"):
        path.unlink()
    (project / "samples/one.json").write_text(json.dumps({"inputs": inputs}))
    [sent] = messages(Facts.load(project.path))
    header = json.loads(sent.body[: sent.body.rindex(b"}") + 1])
    return [each["shape"] for each in header["inputs"]]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [8, 0])
def test_a_lone_value_is_one_row_where_a_row_has_just_one(generate: Generate, rows: int) -> None:
    tensors = {"TEXT": "STRING[1]", "SAID": "STRING[1]", "NUMBER": "FP32[1]", "HALF": "FP32[1]"}
    project = generate(
        project_name="lone",
        tensors=tensors,
        steps=[step("both", ["TEXT", "NUMBER"], ["SAID", "HALF"])],
        extras=["gateway"],
        max_batch_size=rows,
    )
    (project / "steps/both.py").write_text(BOTH)
    succeed(project.make("repository"))
    with serve(project) as server, gateway(project, server.urls["http"]) as service:
        [predict] = service.ask("GET", "/openapi.json").json()["paths"]["/predict"].values()
        schema = predict["requestBody"]["content"]["application/json"]["schema"]
        text, number = ("a", ["a"], [["a"]]), (1, [1], [[1]])
        for given in list(zip(text, number, strict=True))[: 3 if rows else 2]:
            body = dict(zip(("TEXT", "NUMBER"), given, strict=True))
            jsonschema.validate(body, schema)
            answered = service.post(body)
            wanted = {"SAID": ["a"], "HALF": [0.5]}
            assert answered.status == 200, answered.content
            assert answered.json() == {n: [v] if rows else v for n, v in wanted.items()}
            assert shapes_of_a_sample(project, body) == [[1, 1] if rows else [1]] * 2
        answered = service.post({"TEXT": {"base64": "Yg=="}, "NUMBER": 1})
        assert (answered.status, answered.json()["SAID"]) == (200, [["b"]] if rows else ["b"])
        assert service.post({"TEXT": "a", "NUMBER": "1"}).json()["error"] == (
            'NUMBER: "1" is not FP32; write a number'
        )
        assert service.post({"TEXT": "a", "NUMBER": [1, 2]}).status == 400


NAMES = {
    "tensors": {"input.1": "FP32[2]", "class": "STRING[1]", "A/b": "INT64[-1]", "OUT 1": "BOOL[2]"},
    "steps": [step("odd", ["input.1", "class", "A/b"], ["OUT 1"])],
}


SEAM = """
from PACKAGE.runtime import batches, bodies, errors, grpc_transport, transport
from triton_ensemble.facts import client

SEAM: tuple[
    client.Batches, client.Bodies, client.Errors, client.GrpcTransport, client.Transport
] = (batches, bodies, errors, grpc_transport, transport)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "answers", [{}, NAMES, UNUSUAL["decoupled"], {**NAMES, "max_batch_size": 0}]
)
def test_what_is_generated_is_clean(generate: Generate, answers: dict[str, Any]) -> None:
    project = generate(**answers, extras=["gateway"])
    for tool in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]):
        succeed(run(sys.executable, "-m", *tool, "gateway", cwd=project.path))
    (project / "gateway/seam.py").write_text(SEAM.replace("PACKAGE", project.package))
    succeed(run(sys.executable, "-m", "mypy", "gateway", cwd=project.path))
    assert not (generate(**answers) / "gateway").exists()


@pytest.mark.slow
def test_one_command(digits: Server) -> None:
    """`triton-ensemble gateway` alone starts a Triton, too."""
    with gateway(digits.project, "") as service:
        file = image(digits.project, "digit-7.jpg")
        answer = service.upload(("IMAGE", "a.jpg", file)).json()
    [shown] = re.findall(r"^# (\{.*\})", (ROOT / "docs/gateway.md").read_text(), re.MULTILINE)
    assert answer["LABEL"] == json.loads(shown)["LABEL"]
    assert answer["SCORE"][0] == pytest.approx(json.loads(shown)["SCORE"][0], rel=1e-3)
