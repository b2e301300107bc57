"""The page of the gateway as tests of it use it, and its pictures."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, expect

Open = Callable[..., Page]  # of a service, a path and options of the browser's context
WIDE, PHONE = {"width": 960, "height": 640}, {"width": 360, "height": 740}
# Where the pictures of docs/ are written, which differ with each run: `make test-browser PICTURES=docs`.
PICTURES = os.environ.get("PICTURES", "")


def picture(page: Page, name: str) -> None:
    """Keep a picture of the page for docs/."""
    if PICTURES:
        page.evaluate("document.activeElement.blur()")
        content = Image.open(io.BytesIO(page.screenshot(full_page=True)))
        content.quantize(64).save(Path(PICTURES, f"gateway-{name}.png"), optimize=True)


def answers(page: Page) -> list[str]:
    """Return the texts of the answer's rows, once they are there."""
    expect(page.locator(".took")).to_be_visible()
    texts: list[str] = page.locator("#answer .answers > li").all_inner_texts()
    return texts


def row(page: Page, name: str) -> Locator:
    """Return the text of a row, by its label."""
    return page.get_by_role("textbox", name=name)


def send(page: Page) -> list[str]:
    page.locator("#answer").evaluate("answer => answer.replaceChildren()")
    page.click("#send")
    return answers(page)
