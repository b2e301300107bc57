"""The starting pipeline text-to-image on the gateway's page: a prompt is typed, an image is seen."""

from __future__ import annotations

from browser.pages import Open, picture, row, send
from gateway_service import gateway
from playwright.sync_api import expect
from support import Generate, serve


def test_a_prompt_gives_an_image_that_depends_on_it(generate: Generate, opened: Open) -> None:
    project = generate.complete(starting_pipeline="text-to-image", extras=["gateway"])
    seen = []
    with serve(project) as server, gateway(project, server.urls["grpc"]) as service:
        page = opened(service)
        for prompt in ("a red fox", "the sea at night"):
            row(page, "Row 0 of PROMPT").fill(prompt)
            send(page)
            image = page.locator("#answer img")
            expect(image).to_be_visible()
            assert image.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [64, 64]
            seen.append(image.get_attribute("src"))
        picture(page, "image")
    assert seen[0] != seen[1]
