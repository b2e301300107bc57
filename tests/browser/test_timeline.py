"""The starting pipeline speech-activity on the gateway's page: a recording is drawn, and where speech is in it."""

from __future__ import annotations

import json

from browser.pages import Open, answers, picture
from gateway_service import gateway
from support import PIPELINES, Generate, serve


def test_speech_is_marked_in_a_recording(generate: Generate, opened: Open) -> None:
    project = generate.complete(**PIPELINES["speech activity"], extras=["gateway"])
    with serve(project) as server, gateway(project, server.urls["http"]) as service:
        page = opened(service)
        page.get_by_label("Files for AUDIO").set_input_files(project / "samples/speech.wav")
        page.click("#send")
        told = answers(page)
        page.locator(".timeline .wave").wait_for()
        picture(page, "speech")
        answer = json.loads(page.locator("#answer pre").text_content() or "")
    events = [(row, text) for row, [text] in enumerate(answer["EVENT"]) if text]
    assert [text for _, text in events] == ["start", "end", "start", "end"]
    assert [line.splitlines()[0] for line in told] == [f"Row {row}" for row, _ in events]
    assert page.locator(".timeline text").all_text_contents() == ["start", "end", "start", "end"]
    marks = page.locator(".timeline .mark").all()
    places = [float((mark.get_attribute("d") or "")[1:].split()[0]) for mark in marks]
    rows = len(answer["EVENT"])
    assert [round(x / 420 * rows) for x in places] == [row + 1 for row, _ in events]
    assert page.locator(".timeline .quiet").inner_text().split() == ["PROBABILITY", "5.8", "s"]
