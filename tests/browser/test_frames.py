"""The starting pipeline video-tracking on the gateway's page: files are the frames of one sequence, with numbered boxes."""

from __future__ import annotations

from browser.pages import Open, answers, picture
from gateway_service import gateway
from support import PIPELINES, Generate, serve


def test_numbers_are_drawn_on_the_frames_of_a_sequence(generate: Generate, opened: Open) -> None:
    project = generate.complete(**PIPELINES["video tracking"], extras=["gateway"])
    with serve(project) as server, gateway(project, server.urls["http"]) as service:
        page = opened(service)
        files = [project / f"samples/street-{i}.jpg" for i in range(1, 4)]
        page.get_by_label("Files for IMAGE").set_input_files(files)
        page.click("#send")
        told = answers(page)
        page.locator("#answer polygon").last.wait_for()
        picture(page, "frames")
        rows = page.locator("#answer .answers > li").all()
        drawn = [row.locator("svg text").all_text_contents() for row in rows]
    assert [line.splitlines()[0] for line in told] == [file.name for file in files]
    assert drawn == [["1", "2"]] * 3
    assert page.locator("#answer .timeline").count() == 0
