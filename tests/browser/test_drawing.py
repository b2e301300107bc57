"""Parts of the gateway's page in a browser, without a server: the drawing of a pipeline, and the time by step."""

from __future__ import annotations

import json
import re
from typing import Any

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
    assert (
        evaluated(browser, ["dom.js", "graph.js"], f"({COVERED})({json.dumps(FACTS)}, {down})")
        == []
    )


def test_the_time_of_a_fused_model_is_in_its_place_and_names_the_steps(browser: Browser) -> None:
    counters = {"requests": 1, "queue_ns": 0, "compute_ns": 2_000_000}
    after = dict.fromkeys(("last", "s0_to_s2"), counters)
    facts = {
        "name": "all",
        "steps": [*STEPS[:3], {"name": "last"}],
        "fused": {"s0_to_s2": ["s0", "s1", "s2"]},
    }
    assert texts(browser, after, facts, "dt") == ["s0_to_s2 (s0, s1, s2)", "last"]
    hint = "s0, s1 and s2 share a model: make bench and step_seconds_total in Triton's metrics have the time of each."
    assert texts(browser, after, facts, "p") == [hint]
    assert texts(browser, {"last": counters, "s9": counters}, facts, "p") == []


def texts(browser: Browser, after: Any, facts: Any, tag: str) -> Any:
    """Return the texts of the elements of a tag in the time by step."""
    page = f"document.body.append(...times({{}}, {json.dumps(after)}, {json.dumps(facts)}))"
    found = f"[...document.querySelectorAll('{tag}')].map((each) => each.textContent)"
    return evaluated(browser, ["dom.js", "steps.js"], f"({page}, {found})")


def evaluated(browser: Browser, scripts: list[str], expression: str) -> Any:
    """Return the value of an expression by scripts of the page, on an empty page of its style."""
    page = browser.new_page()
    page.set_content(f"<style>{(STATIC / 'style.css').read_text()}</style>")
    code = "\n".join((STATIC / name).read_text() for name in scripts)
    code = re.sub(r"^import .*|^export ", "", code, flags=re.MULTILINE)
    value = page.evaluate(f"() => {{ {code}\nreturn {expression} }}")
    page.close()
    return value
