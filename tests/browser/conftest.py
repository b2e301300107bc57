"""A browser, and the default project's gateway before a real Triton."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from browser.pages import WIDE, Open
from gateway_service import Service, gateway
from playwright.sync_api import Browser, Page, sync_playwright
from support import Generate, Server, serve


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Run the Chromium of this machine."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "there is no Chromium; install it: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Return what opens a page. It fails for what the page logs, and for all that it asks another place."""
    said, asked, contexts = [], set(), []

    def page(service: Service, path: str = "", **options: Any) -> Page:
        context = browser.new_context(**{"viewport": WIDE, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda line: said.append(line.text))
        page.on("request", lambda request: asked.add(request.url))
        page.goto(f"http://127.0.0.1:{service.port}/{path}")
        return page

    yield page
    for context in contexts:
        context.close()
    # Chromium logs each answer that is not 200 or none, which tests of refusals want.
    assert [line for line in said if not line.startswith("Failed to load resource")] == []
    assert {url for url in asked if not re.match(r"http://127\.0\.0\.1:|blob:|data:", url)} == set()


@pytest.fixture(scope="session")
def digits(generate: Generate) -> Iterator[Server]:
    project = generate.complete(extras=["gateway"])
    with serve(project) as server:
        yield server


@pytest.fixture(scope="session")
def service(digits: Server) -> Iterator[Service]:
    with gateway(digits.project, digits.urls["grpc"]) as service:
        yield service
