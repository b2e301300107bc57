"""The template that `triton-ensemble new` copies, where the package is installed from a wheel."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from support import ROOT

from triton_ensemble.author import origin


def test_an_installed_wheel_is_not_taken_for_the_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [wheel] = ROOT.glob("template/vendor/*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    monkeypatch.setattr(origin, "template_root", lambda: tmp_path / "triton_ensemble")
    assert (tmp_path / "triton_ensemble/copier.yml").is_file()
    assert origin.template()[0] != str(tmp_path / "triton_ensemble")
