"""The starting pipeline speech-to-text on the gateway's page: a recording is dropped, its text is seen."""

from __future__ import annotations

from browser.pages import Open, answers, picture
from gateway_service import gateway
from support import PIPELINES, Generate, serve


def test_a_recording_is_written(generate: Generate, opened: Open) -> None:
    project = generate.complete(**PIPELINES["speech to text"], extras=["gateway"])
    with serve(project) as server, gateway(project, server.urls["http"]) as service:
        page = opened(service)
        page.get_by_label("Files for AUDIO").set_input_files(project / "samples/weather.wav")
        page.click("#send")
        [told] = answers(page)
        assert "The weather was cold, but the children played outside." in told
        picture(page, "transcript")
