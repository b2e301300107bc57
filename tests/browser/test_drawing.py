"""The drawing of a pipeline on the gateway's page, in a browser and without a server."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Browser
from support import SOURCES

STATIC = SOURCES / "triton_ensemble/gateway/static"
# Four steps in a row, whose tensors have long names; the last reads the first tensor again.
NAMES = ["WAVEFORM_MONO", "MEL", "MEL_SPECTROGRAM", "PROBABILITY"]
STEPS = [
    {"name": f"s{i}", "backend": "python", "reads": reads, "writes": [name], "calls": []}
    for i, (reads, name) in enumerate(
        zip((["IN"], NAMES[:1], NAMES[1:2], [*NAMES[:1], NAMES[2]]), NAMES, strict=True)
    )
]
FACTS = {
    "inputs": [{"name": "IN"}],
    "outputs": [{"name": NAMES[-1]}],
    "steps": STEPS,
    "tensors": {},
}
# The texts of edges that are not clear of a box.
COVERED = """(facts, down) => {
  const picture = drawing(facts, down);
  document.body.append(picture);
  const texts = [...picture.querySelectorAll(".edge text")].filter((text) => text.textContent);
  const boxes = [...picture.querySelectorAll("rect")].map((box) => box.getBBox());
  const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
  return texts.filter((text) => boxes.some((box) => meet(box, text.getBBox()))).map((text) => text.textContent);
}"""


@pytest.mark.parametrize("down", ["false", "true"])
def test_the_names_on_arrows_cover_no_box(browser: Browser, down: str) -> None:
    page = browser.new_page()
    page.set_content(f"<style>{(STATIC / 'style.css').read_text()}</style>")
    code = (STATIC / "graph.js").read_text().replace("export ", "")
    assert (
        page.evaluate(f"() => {{ {code}\nreturn ({COVERED})({json.dumps(FACTS)}, {down}) }}") == []
    )
    page.close()
