"""docs/dashboard.png, which scripts/dashboard/ makes: it shows what projects get today."""

from __future__ import annotations

import json

from PIL import Image
from support import ROOT, Project

SCRIPT = ROOT / "scripts/dashboard"


def test_the_dashboard_of_the_docs_is_that_of_the_template(default_project: Project) -> None:
    """`make dashboard` draws it anew."""
    dashboard = json.loads((default_project / "deploy/monitoring/dashboard.json").read_text())
    with Image.open(ROOT / "docs/dashboard.png") as picture:
        assert json.loads(picture.info["dashboard"]) == dashboard


def test_what_draws_it_is_pinned() -> None:
    package = json.loads((SCRIPT / "package.json").read_text())
    assert [
        version for version in package["dependencies"].values() if not version[0].isdigit()
    ] == []


def test_it_is_drawn_by_the_components_of_the_grafana_that_is_run(default_project: Project) -> None:
    wanted = json.loads((SCRIPT / "package.json").read_text())["dependencies"]
    compose = (default_project / "deploy/compose.yaml").read_text()
    assert f"grafana/grafana:{wanted['@grafana/ui']}" in compose
