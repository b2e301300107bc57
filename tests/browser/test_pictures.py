"""Pictures of starting pipelines for docs/ that no other test takes: `make test-browser PICTURES=docs`."""

from __future__ import annotations

import pytest
from browser.pages import PICTURES, Open, answers, picture
from gateway_service import gateway
from support import PIPELINES, Generate, serve


@pytest.mark.skipif(not PICTURES, reason="needs PICTURES=docs")
@pytest.mark.parametrize(
    ("pipeline", "sample", "drawn"),
    [("ocr", "receipt", "#answer polygon"), ("retrieval", "answer", "#answer li")],
)
def test_a_sample_is_answered(
    pipeline: str, sample: str, drawn: str, generate: Generate, opened: Open
) -> None:
    project = generate.complete(**PIPELINES[pipeline], extras=["gateway"])
    with serve(project) as server, gateway(project, server.urls["http"]) as service:
        page = opened(service)
        page.get_by_role("button", name=sample, exact=True).click()
        answers(page)
        page.locator(drawn).last.wait_for()
        picture(page, pipeline)
