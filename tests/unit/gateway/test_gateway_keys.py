"""A request and its key, and the files that hold keys."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest

from triton_ensemble.gateway.call import Call, Keys
from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.gateway.settings import Settings, SettingsError
from triton_ensemble.serve.container import serve

NOTHING: Any = None
UTF16 = "key\n".encode("utf-16")


def make_call(key: str, header: bytes = b"x-api-key") -> Call:
    headers = [(header, key.encode("latin-1"))]
    scope = {"method": "POST", "path": "/predict", "headers": headers}
    return Call(scope, NOTHING, NOTHING)


def test_a_request_that_is_let_in_keeps_its_key_when_keys_change(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("old\n")
    keys = Keys(Settings(api_keys_file=str(file)))
    call = make_call("old")
    keys.check(call)
    file.write_text("new\n")
    keys.check(call)
    with pytest.raises(Refusal):
        keys.check(make_call("old"))


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_of_a_key_is_read_in_any_case(scheme: str) -> None:
    keys = Keys(Settings(api_keys="key"))
    assert keys.are_in(make_call(f"{scheme} key", b"authorization"))
    assert not keys.are_in(make_call("Basic key", b"authorization"))


def is_known(keys: Keys, key: str) -> bool:
    return keys.are_in(make_call(key))


def test_a_file_of_keys_as_editors_write_it(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"\xef\xbb\xbffirst \t\r\n\r\n# old\r\n  # older\r\nsecond#2\r\n")
    keys = Keys(Settings(api_keys_file=str(file)))
    asked = ["first", "second#2", "# old", "old", "", "\ufefffirst".encode().decode("latin-1")]
    assert [key for key in asked if is_known(keys, key)] == ["first", "second#2"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (UTF16, "is UTF-16; save it as UTF-8"),
        (UTF16[2:], "is UTF-16; save it as UTF-8"),
        (b"k\xff\xferaw\n", "is not UTF-8; save it as UTF-8"),
        (b"", "has no key; "),
        (b"\n# none\n", "has no key; "),
        (None, "Is a directory|denied"),
    ],
)
def test_a_file_without_keys_is_a_line_at_the_start_and_one_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None, line: str
) -> None:
    file, wrong = tmp_path / "keys", tmp_path / "wrong"
    file.write_text("old\n")
    os.utime(file, (1, 1))  # else it may be one that is being written
    keys = Keys(Settings(api_keys_file=str(file)))
    assert is_known(keys, "old")
    file.unlink()
    wrong.mkdir() if content is None else wrong.write_bytes(content)
    wrong.rename(file)
    os.utime(file, (2, 2))
    with pytest.raises(SettingsError, match=line) as raised:
        Settings.read({"GATEWAY_API_KEYS_FILE": str(file)})
    assert str(raised.value).startswith(f"GATEWAY_API_KEYS_FILE: {file}")
    with caplog.at_level(logging.WARNING):
        # Keys that are taken out of the file are known no more.
        assert [is_known(keys, "old") for _ in range(3)] == ["has no key" not in line] * 3
    [said] = caplog.messages
    assert re.search(line, said)


@pytest.mark.parametrize(
    ("content", "outcome"),
    [
        (b"\xef\xbb\xbf# ours\r\nkey\r\n", ":admin-key=key'"),
        (b"first\nsecond\n", "write one"),
        (UTF16, "is UTF-16; save it as UTF-8"),
        (b"k\xff", "is not UTF-8; save it as UTF-8"),
    ],
)
def test_the_key_of_administrators_is_read_by_the_same_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, outcome: str
) -> None:
    file = tmp_path / "admin-key"
    file.write_bytes(content)
    monkeypatch.setattr(serve, "KEY_FILES", (file,))
    monkeypatch.setattr(serve, "_start_hiding", lambda _: None)
    monkeypatch.setattr(os, "execvp", lambda _, words: exit(str(words)))
    with pytest.raises(SystemExit) as raised:
        serve.main([])
    assert outcome in str(raised.value)
