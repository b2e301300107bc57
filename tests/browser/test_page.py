"""The page of the gateway in a browser, Chromium without a window, before a real Triton."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser.pages import Open, answers, picture, row, send
from gateway_service import Service, gateway
from playwright.sync_api import Route, expect
from step_code import step_code
from support import SOURCES, Generate, Server, run, serve, step, succeed

MIXED = {
    "project_name": "mixed",
    "tensors": {
        "TEXT": "STRING[1]",
        "NUMBERS": {"type": "FP32", "dims": [2, 2], "optional": True},
        "ECHO": "STRING[1]",
        "PICTURE": "STRING[1]",
        "CLASSES": "FP32[8]",
        "VECTOR": "FP32[-1]",
        "LONG": "BOOL[1]",
    },
    "steps": [step("look", ["TEXT", "NUMBERS"], ["ECHO", "PICTURE", "CLASSES", "VECTOR", "LONG"])],
}
LOOK = '''
import base64

import numpy as np

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Step:
    """What people can see: a text, an image, classes and numbers."""

    def __init__(self, context):
        pass

    def __call__(self, TEXT, NUMBERS):
        rows = len(TEXT)
        classes = np.tile(np.array([0, 0, 0.1, 0.6, 0.15, 0.05, 0.05, 0.05], np.float32), (rows, 1))
        numbers = np.zeros((rows, 2, 2), np.float32) if NUMBERS is None else NUMBERS
        return {
            "ECHO": TEXT,
            "PICTURE": np.full((rows, 1), PNG, dtype=np.object_),
            "CLASSES": classes,
            "VECTOR": np.tile(numbers.reshape(rows, 4), 5) + 7,
            "LONG": np.array([[len(text) > 20] for [text] in TEXT]),
        }
'''
# Ten steps: arrows over several layers, a fan out and in.


@pytest.fixture(scope="module")
def mixed(generate: Generate) -> Iterator[Service]:
    project = generate(**MIXED, extras=["gateway"])
    (project / "steps/look.py").write_text(LOOK)
    succeed(project.make("repository"))
    with serve(project) as server, gateway(project, server.urls["grpc"]) as service:
        yield service


def test_a_sample_is_asked(opened: Open, service: Service) -> None:
    page = opened(service)
    expect(page.locator("h1")).to_have_text("image_classification")
    page.get_by_role("button", name="digits-2-6").click()
    two, six = answers(page)
    assert two.split() == ["digit-2.jpg", "LABEL,", "SCORE", "2", "1.000"]
    assert six.split()[0] == "digit-6.jpg"
    assert re.match(r"\d+ ms, request [0-9a-f]{32}$", page.inner_text(".took"))
    expect(page.locator(".steps dt")).to_have_text(["preprocess", "classify", "label"])
    for name in ("preprocess", "classify", "label"):
        told = page.locator(f".steps dt:text-is('{name}') + dd")
        expect(told).to_have_text(re.compile(r"^\d+\.\d ms computing, \d+\.\d ms in the queue$"))
    picture(page, "answer")
    page.click("summary:text('JSON')")
    assert '"LABEL":[["2"],["6"]]' in page.inner_text("#answer pre")


def test_files_are_uploaded_and_errors_have_their_names(
    opened: Open, service: Service, digits: Server, tmp_path: Path
) -> None:
    bad = tmp_path / "<img src=x onerror=alert(1)>.jpg"
    bad.write_bytes(b"\xff\xd8\xff no image")
    good = digits.project / "samples/digit-7.jpg"
    page = opened(service)
    page.set_input_files("input[type=file]", [good, bad])
    page.set_input_files("input[type=file]", digits.project / "samples/digit-2.jpg")
    first, error, last = send(page)
    assert (first.split()[0], last.split()[0]) == ("digit-7.jpg", "digit-2.jpg")
    assert error.splitlines()[0] == bad.name
    assert "not a complete JPEG or PNG image" in error
    page.get_by_role("button", name="Remove row 0 of IMAGE").click()
    page.get_by_role("button", name="Remove row 2 of IMAGE").click()
    [error] = send(page)
    assert error.splitlines()[0] == bad.name


def test_an_error_as_docs_show_it(
    opened: Open, service: Service, digits: Server, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("no image")
    page = opened(service)
    page.set_input_files("input[type=file]", [digits.project / "samples/digit-7.jpg", notes])
    seven, error = send(page)
    assert "7" in seven
    assert error.startswith("notes.txt")
    assert page.get_by_role("alert").filter(has_text="notes.txt").count() == 1
    assert page.locator("li[role], ul > :not(li)").count() == 0  # which axe refuses
    picture(page, "error")


def test_files_are_dropped(opened: Open, service: Service) -> None:
    page = opened(service)
    page.evaluate("""async () => {
      const files = new DataTransfer();
      for (const name of ["digit-6.jpg", "digit-7.png"])
        files.items.add(new File([await (await fetch(`samples/${name}`)).blob()], name));
      const drop = new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true });
      document.querySelector("fieldset").dispatchEvent(drop);
    }""")
    assert [text.split()[3] for text in send(page)] == ["6", "7"]


def test_texts_and_numbers(opened: Open, mixed: Service) -> None:
    """A text keeps its line ends. Bars are sorted. An image is one. Rows of JSON are joined."""
    page = opened(mixed)
    row(page, "Row 0 of TEXT").fill("one\ntwo <b>")
    page.locator("fieldset", has_text="TEXT").get_by_text("Add a row").click()
    page.keyboard.type("a text of more than twenty letters")
    numbers = page.locator("fieldset", has_text="NUMBERS").get_by_text("Add a row")
    numbers.click()
    numbers.click()
    assert row(page, "Row 1 of NUMBERS").input_value() == "[[0,0],[0,0]]"
    row(page, "Row 1 of NUMBERS").fill("[[1, 2], [3, 4.5]]")
    first, second = send(page)
    assert "one\ntwo <b>" in first
    assert "…" in second
    assert "8, 9, 10, 11.5" in second
    assert ("false" in first, "true" in second) == (True, True)
    bars = page.locator("#answer .bars").first.locator("li").all_inner_texts()
    assert [bar.split() for bar in bars[:3]] == [["3", "0.600"], ["4", "0.150"], ["2", "0.100"]]
    assert bars[-1] == "… 3 more"
    assert page.locator("#answer img").first.evaluate("image => image.naturalWidth") == 1
    page.click("summary:text('JSON')")
    assert r'"ECHO":[["one\ntwo <b>"]' in page.inner_text("#answer pre")


def test_a_request_that_is_refused(opened: Open, mixed: Service) -> None:
    page = opened(mixed)
    page.locator("fieldset", has_text="NUMBERS").get_by_text("Add a row").click()
    row(page, "Row 0 of NUMBERS").fill("[[1, 2], [3,")
    [error] = send(page)
    assert "NUMBERS: is not JSON" in error
    row(page, "Row 0 of NUMBERS").fill("[1]")
    [error] = send(page)
    assert "NUMBERS has shape" in error


def test_rows_have_the_numbers_of_the_api(opened: Open, mixed: Service) -> None:
    """They count from 0: in the form, in the answer and in an error's words."""
    page = opened(mixed)
    field = page.locator("fieldset", has_text="NUMBERS")
    for i, text in enumerate(("[[1, 2], [3, 4]]", "[[1, 2], [3, null]]")):
        field.get_by_text("Add a row").click()
        row(page, f"Row {i} of NUMBERS").fill(text)
    page.locator("fieldset", has_text="TEXT").get_by_text("Add a row").click()
    [error] = send(page)
    assert "NUMBERS, row 1: null is not FP32" in error
    assert error.splitlines()[0] == "Row 1"
    row(page, "Row 1 of NUMBERS").fill("[[0, 0], [0, 0]]")
    assert [text.splitlines()[0] for text in send(page)] == ["Row 0", "Row 1"]


WORDS = step_code(
    """
def __call__(self, TEXT):
    for word in TEXT[0].decode().split():
        yield {"WORD": np.array([word], object)}
""",
    "import numpy as np",
)


def test_answers_that_come_one_by_one(opened: Open, generate: Generate) -> None:
    words = step("words", ["TEXT"], ["WORD"], decoupled=True)
    tensors = dict.fromkeys(["TEXT", "WORD"], "STRING[1]")
    project = generate(
        project_name="stream", tensors=tensors, steps=[words], max_batch_size=0, extras=["gateway"]
    )
    (project / "steps/words.py").write_text(WORDS)
    succeed(project.make("repository"))
    with serve(project) as server, gateway(project, server.urls["grpc"]) as service:
        page = opened(service)
        row(page, "Row 0 of TEXT").fill("one two")
        assert [text.split()[-1] for text in send(page)] == ["one", "two"]
        row(page, "Row 0 of TEXT").fill(" ")
        assert send(page) == []
        expect(page.locator("#answer")).to_contain_text("The pipeline gave no answer.")


def test_a_key_is_asked_for(opened: Open, digits: Server) -> None:
    with gateway(digits.project, digits.urls["grpc"], GATEWAY_API_KEYS="secret") as service:
        page = opened(service)
        expect(page.locator("#pipeline")).to_be_hidden()
        page.get_by_label("API key").fill("guess")
        page.keyboard.press("Enter")
        expect(page.locator("#key [role=alert]")).to_have_text("This key is not known.")
        page.get_by_label("API key").fill("secret")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="digit-7", exact=True).click()
        assert "7" in answers(page)[0]
        assert "$API_KEY" in page.locator("#code pre").first.text_content()
        assert service.ask("GET", "/samples/digit-7.jpg").status == 401
        assert service.ask("GET", "/pipeline.json").status == 401


def test_curl_and_python_do_the_same(opened: Open, service: Service, digits: Server) -> None:
    page = opened(service)
    page.get_by_role("button", name="digits-2-6").click()
    answers(page)
    curl, python = page.locator("#code pre").all()
    samples = digits.project / "samples"
    command = shlex.split(curl.text_content().replace("\\\n", " "))
    assert '"LABEL":[["2"],["6"]]' in succeed(run(*command, "--silent", cwd=samples))
    code = python.text_content().replace("http://127.0.0.1:8000", digits.urls["http"])
    path = f"{digits.project / 'src'}:{SOURCES}"
    printed = succeed(run(sys.executable, "-c", code, cwd=samples, PYTHONPATH=path))
    assert "b'2'" in printed
    assert "b'6'" in printed


def test_python_of_texts_and_numbers(opened: Open, mixed: Service, tmp_path: Path) -> None:
    """The page writes Python, whatever a text has."""
    page = opened(mixed)
    row(page, "Row 0 of TEXT").fill('it\'s "one"\nor \\two; $HOME é')
    file = tmp_path / "n.json"
    file.write_text("[[1, 2], [3, 4]]")
    page.locator("fieldset", has_text="NUMBERS").locator("input").set_input_files(file)
    assert '"one"\nor \\two; $HOME é' in send(page)[0]
    compile(page.locator("#code pre").last.text_content(), "python", "exec")
    command = page.locator("#code pre").first.text_content()
    answered = subprocess.run(
        ["bash", "-c", f"{command} --silent"], cwd=tmp_path, capture_output=True, text=True
    )
    assert r"it's \"one\"\nor \\two; $HOME é" in answered.stdout


def test_the_answer_is_that_of_the_last_request(opened: Open, service: Service) -> None:
    page, held = opened(service), list[Route]()
    page.route("**/predict", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/predict"):
        page.get_by_role("button", name="digits-2-6").click()
    page.get_by_role("button", name="digit-7", exact=True).click()
    answers(page)
    held[0].continue_()
    page.wait_for_timeout(1000)
    [answer] = answers(page)
    assert "digit-7.jpg" in answer


def test_triton_that_does_not_say_what_it_did_keeps_nobody_waiting(
    opened: Open, service: Service
) -> None:
    page = opened(service)
    page.route("**/statistics.json", lambda _: None)  # no answer, as of a Triton that hangs
    page.get_by_role("button", name="digit-7", exact=True).click()
    assert len(answers(page)) == 1  # within Playwright's 5 s
    expect(page.locator(".steps")).to_have_count(0)


def test_a_path_of_a_proxy(opened: Open, digits: Server) -> None:
    """All that the page asks is below the path at which a proxy has the service."""
    with gateway(digits.project, digits.urls["grpc"], GATEWAY_ROOT_PATH="/digits") as service:
        page = opened(service, "digits/")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.reload()
        page.get_by_role("button", name="digit-7", exact=True).click()
        assert len(answers(page)) == 1
        page.get_by_role("link", name="API").click()
        expect(page.locator("h2").first).to_have_text("POST /predict")
        paths = [url for url in asked if url.startswith("http")]
        assert all(f":{service.port}/digits/" in url for url in paths), paths


def test_a_service_that_is_gone(opened: Open, digits: Server) -> None:
    with gateway(digits.project, digits.urls["grpc"]) as service:
        page = opened(service)
        page.get_by_role("button", name="digit-7", exact=True).click()
        answers(page)
    page.click("#send")
    expect(page.locator("#problem")).to_have_text(
        "The service can't be reached; start it, then try again."
    )
    expect(page.locator("#answer")).to_be_empty()
