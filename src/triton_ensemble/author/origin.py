"""The origin of the template that this package belongs to."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from triton_ensemble.facts.catalog import template_root

ADDRESS = "gh:org/triton-ensemble-template"


def template() -> tuple[str, str | None]:
    """Return the template's address, and the commit that this package was installed from, if it is known.

    A clone is its own template. An installed package tells in direct_url.json, which the standard
    PEP 610 describes, what it was installed from.
    """
    if _is_template(template_root()):
        return str(template_root()), "HEAD"
    try:
        written = distribution("triton-ensemble").read_text("direct_url.json") or "{}"
    except PackageNotFoundError:
        written = "{}"
    source = json.loads(written)
    url, commit = source.get("url", ""), source.get("vcs_info", {}).get("commit_id")
    if commit:
        return f"git+{url}", commit
    folder = Path(unquote(urlsplit(url).path))
    if url.startswith("file:") and _is_template(folder):
        return str(folder), "HEAD"
    return ADDRESS, None


def _is_template(folder: Path) -> bool:
    """Return whether a folder has the whole template.

    An installed package lacks the files that belong to a wheel.
    """
    return all(
        (folder / name).is_file() for name in ("copier.yml", "template/vendor/requirements.txt")
    )
