"""Shared by tests: the wheel of a template that a test has changed, as `make wheel` would build it, in a moment."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path

from triton_ensemble.compile.render import list_templates

PACKAGE = "triton_ensemble"
# What the wheel carries of the template's other folders.
CARRIED = ("copier.yml", "CHANGELOG.md", "hooks")


def pack_wheel(template: Path, sources: Path | None = None) -> None:
    """Give the wheel in template/vendor/ the files that are in the template now, and write its hash beside it.

    The modules are those of the template's src/, or of other `sources`.
    """
    [wheel] = (template / "template/vendor").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    kept = {
        name: data
        for name, data in contents.items()
        if "/examples/" in name or ".dist-info/" in name
    }
    kept |= {
        name: path.read_bytes() for name, path in _list_files(template, sources or template / "src")
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in sorted(kept.items()):
            archive.writestr(zipfile.ZipInfo(name), data)
    write_hash(wheel)


def write_hash(wheel: Path) -> None:
    """Write the hash of a wheel beside it."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    line = f"./vendor/{wheel.name}[answers,progress] --hash=sha256:{digest}\n"
    wheel.with_name("requirements.txt").write_text(line)


def _list_files(template: Path, sources: Path) -> Iterator[tuple[str, Path]]:
    for name in list_templates(template / "template"):
        yield f"{PACKAGE}/template/{name}", template / "template" / name
    for name in CARRIED:
        for path in [template / name, *(template / name).rglob("*")]:
            if path.is_file():
                yield f"{PACKAGE}/{path.relative_to(template)}", path
    for path in sources.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path.relative_to(sources)), path
