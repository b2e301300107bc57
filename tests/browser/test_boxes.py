"""The starting pipeline object-detection on the gateway's page: boxes are drawn on the images that are sent."""

from __future__ import annotations

import json
from typing import Any

from browser.pages import Open, answers, picture
from gateway_service import gateway
from playwright.sync_api import Locator
from support import PIPELINES, Generate, serve


def test_boxes_are_drawn_on_the_image_of_their_row(generate: Generate, opened: Open) -> None:
    project = generate.complete(**PIPELINES["object detection"], extras=["gateway"])
    with serve(project) as server, gateway(project, server.urls["grpc"]) as service:
        page = opened(service)
        page.get_by_role("button", name="page").click()
        answers(page)
        page.locator("polygon").last.wait_for()
        picture(page, "boxes")
        page.get_by_role("button", name="three").click()
        rows = page.locator("#answer .answers > li")
        rows.nth(2).locator("polygon").last.wait_for()
        answer = json.loads(page.locator("#answer pre").text_content() or "")
        assert [rows.nth(i).locator("polygon").count() for i in range(3)] == [5, 0, 15]
        assert [is_where(rows.nth(i), answer["BOX"][i]) for i in (0, 2)] == [True, True]
        assert rows.nth(0).locator("svg text").first.text_content() == "table"
        assert rows.nth(1).locator("meter").count() == 0


def is_where(row: Locator, boxes: list[list[float]]) -> Any:
    """Whether each box is as far from the corner of the image as its numbers say, in pixels of the image."""
    return row.evaluate(
        """(row, boxes) => {
          const image = row.querySelector("img");
          const seen = image.getBoundingClientRect();
          const scale = seen.width / image.naturalWidth;
          return [...row.querySelectorAll("polygon")].every((polygon, i) => {
            const at = polygon.getBoundingClientRect();
            const have = [at.left - seen.left, at.top - seen.top, at.right - seen.left, at.bottom - seen.top];
            return have.every((value, side) => Math.abs(value - boxes[i][side] * scale) < 2);
          });
        }""",
        boxes,
    )
