"""A request and its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_ensemble.gateway.keys import Keys
from triton_ensemble.gateway.observe import Asked
from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.gateway.settings import Settings


def test_a_request_that_is_let_in_keeps_its_key_when_keys_change(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("old\n")
    keys = Keys(Settings(api_keys_file=str(file)))
    asked = Asked("POST", "/predict", {"x-api-key": "old"})
    keys.check(asked)
    file.write_text("new\n")
    keys.check(asked)
    with pytest.raises(Refusal):
        keys.check(Asked("POST", "/predict", {"x-api-key": "old"}))
