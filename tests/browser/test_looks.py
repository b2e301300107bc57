"""How the page looks: on phones, in the dark, by the keyboard, and its drawings of pipelines."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from browser.pages import PHONE, WIDE, Open, answers, picture
from gateway_service import Service
from playwright.sync_api import Page, expect
from support import PIPELINES, UNUSUAL, Generate, step

# Ten steps: arrows over several layers, a fan out and in.
TEN = {
    "project_name": "ten",
    "tensors": dict.fromkeys("PQ", "STRING[1]") | dict.fromkeys("ABCDEFGHIJ", "FP32[4]"),
    "steps": [
        step("tokenize", ["P"], ["A"]),
        step("decode", ["Q"], ["B"]),
        step("embed_text", ["A"], ["C"], "onnxruntime"),
        step("embed_image", ["B"], ["D"], "onnxruntime"),
        step("detect", ["B"], ["E"], "pytorch"),
        step("crop", ["B", "E"], ["F"]),
        step("join", ["C", "D"], ["G"]),
        step("rank", ["G", "F"], ["H"], "onnxruntime"),
        step("explain_what_was_found", ["A", "H"], ["I"]),
        step("last", ["I", "H"], ["J"]),
    ],
}


def test_the_keyboard_is_enough(opened: Open, service: Service) -> None:
    page = opened(service)
    expect(page.locator("#pipeline")).to_be_visible()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "digit-7":
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    page.keyboard.press("Enter")
    assert (outline, len(answers(page))) == ("solid", 1)
    names = page.evaluate("""[...document.querySelectorAll("button, input, textarea, summary, a")]
        .filter(e => !(e.ariaLabel || e.labels?.length || e.textContent.trim())).length""")
    assert names == 0


def test_a_phone(opened: Open, service: Service) -> None:
    page = opened(service, viewport=PHONE, has_touch=True)
    page.get_by_role("button", name="digit-7", exact=True).tap()
    assert len(answers(page)) == 1
    top = page.locator("#answer .answers").evaluate("answer => answer.getBoundingClientRect().top")
    assert 0 <= top < PHONE["height"] * 3 / 4  # it is seen without a finger
    page.click("#code summary")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.click("#code summary")
    picture(page, "phone")


def test_a_label_is_not_broken_beside_its_bar(opened: Open, service: Service) -> None:
    page = opened(service, viewport={"width": 1000, "height": 640})
    answer = {"LABEL": [["hippopotamus", "cat"]], "SCORE": [[0.75, 0.25]]}
    page.route("**/predict", lambda route: route.fulfill(json=answer))
    page.get_by_role("button", name="digit-7", exact=True).click()
    answers(page)
    assert page.evaluate(LINES) == [1, 1]
    lefts = page.evaluate("[...document.querySelectorAll('meter')].map(m => m.offsetLeft)")
    assert len({*lefts}) == 1


LINES = """[...document.querySelectorAll(".bars .label")].map(label => {
  const range = document.createRange();
  range.selectNodeContents(label);
  return range.getClientRects().length;
})"""


def test_light_and_dark(opened: Open, service: Service) -> None:
    def contrast(page: Page) -> float:
        """Return the least contrast of a text with what is behind it, as WCAG 2 has it."""
        page.get_by_role("button", name="digit-7", exact=True).click()
        answers(page)
        pairs = page.evaluate(COLORS)
        return min(ratio(luminance(a), luminance(b)) for a, b in pairs)

    light, dark = (opened(service, color_scheme=scheme) for scheme in ("light", "dark"))
    assert contrast(light) >= 4.5
    assert contrast(dark) >= 4.5
    paper = "getComputedStyle(document.body).backgroundColor"
    assert luminance(light.evaluate(paper)) > 0.9 > 0.1 > luminance(dark.evaluate(paper))
    picture(dark, "dark")


COLORS = """[...document.querySelectorAll("h1, h2, h3, p, a, button, dt, dd, legend, summary, .label, .quiet")]
  .filter(e => e.offsetParent && e.textContent.trim()).map(e => {
    let behind = e;
    while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
    return [getComputedStyle(e).color, getComputedStyle(behind).backgroundColor];
  })"""


def luminance(color: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def ratio(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


@pytest.mark.parametrize("size", ["wide", "phone"])
@pytest.mark.parametrize("name", ["ten", "one step", "fan", "a model that is only called"])
def test_drawings_are_readable(
    opened: Open, service: Service, generate: Generate, name: str, size: str
) -> None:
    """All steps and tensors are there, and no two boxes touch."""
    answers = {"ten": TEN, **PIPELINES, **UNUSUAL}[name]
    facts = drawn(generate, name, answers)
    page = opened(service, viewport=PHONE if size == "phone" else WIDE)
    page.route("**/pipeline.json", lambda route: route.fulfill(json={**facts, "samples": []}))
    page.reload()
    expect(page.locator("#graph svg")).to_be_visible()
    titles = page.locator("#graph g:not(.edge) > title").all_text_contents()
    nodes = [*facts["inputs"], *facts["steps"], *facts["outputs"]]
    assert [title.partition(":")[0] for title in titles] == [node["name"] for node in nodes]
    boxes = page.evaluate(
        "[...document.querySelectorAll('#graph rect')].map(r => r.getBBox()).map(b => [b.x, b.y, b.width, b.height])"
    )
    for one, other in itertools.combinations(boxes, 2):
        apart = [abs(one[i] - other[i]) >= one[i + 2] + 8 for i in (0, 1)]
        assert any(apart), (one, other)
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


KNOWN: dict[str, dict[str, Any]] = {}


def drawn(generate: Generate, name: str, answers: dict[str, Any]) -> dict[str, Any]:
    """Return gateway/pipeline.json of a project. Each is generated once."""
    if name not in KNOWN:
        project = generate(**answers, extras=["gateway"])
        KNOWN[name] = json.loads((project / "gateway/pipeline.json").read_text())
    return KNOWN[name]


def test_the_api_as_a_list(opened: Open, service: Service) -> None:
    page = opened(service)
    page.get_by_role("link", name="API").click()
    expect(page.locator("h2").first).to_have_text("POST /predict")
    routes = page.locator("section").first.inner_text()
    assert 'IMAGE\tlist of list of (string or {"base64": text})' in routes
    assert "429\tToo many requests at once" in routes
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDE["width"]
    page.get_by_role("link", name="Try it").click()
    expect(page.locator("h1")).to_have_text("image_classification")
