"""The choices of an operator: variables of the environment, each with a default that is safe."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from triton_ensemble.serve.local.key_file import explain, read_keys

MIB = 1 << 20
IN_FLIGHT = 4  # requests to Triton that one request is at once
MAY_BE_0 = ("waiting", "wait_s", "adapt", "batch")
ORIGIN = r" *(\*|https?://[^/\s,]+) *"
FORMS = {  # what such a setting looks like, and in words
    "adapt": (re.compile("[01]"), "1 or 0"),
    "batch": (re.compile("[01]"), "1 or 0"),
    "api_keys": (re.compile(r"(?s).*[^,\s].*"), "keys with commas between them, or unset it"),
    "cors": (re.compile(f"{ORIGIN}(,{ORIGIN})*"), "origins as https://HOST, or *"),
    "root_path": (re.compile(r"(/[^/\s]+)+"), "a path as /api"),
}


class SettingsError(ValueError):
    """Raised for a value that can't be used: which variable, what it is, what to write."""


@dataclass(frozen=True)
class Settings:
    """The variables by their names without GATEWAY_ and in small letters: concurrency is GATEWAY_CONCURRENCY."""

    concurrency: int = 32  # requests that Triton computes at once, for each worker
    waiting: int = 16  # requests that wait for one of these places, for each worker
    wait_s: float = 0.1  # how long they may
    adapt: int = 1  # whether places are fewer while Triton is slower and refuses: 1 or 0
    timeout_s: float = 30.0  # from the request's last byte to the answer
    body_s: float = 30.0  # from the request's first byte to its last
    max_bytes: int = 64 * MIB  # of a request
    json_bytes: int = 16 * MIB  # of JSON, a request's or those of a form together
    max_rows: int = 64  # of a request
    openai_rows: int = (
        2048  # of a request in OpenAI's form, unless max_rows is given: its clients send as many
    )
    sequence_rows: int = 4096  # of a request that is a sequence
    memory_bytes: int = 512 * MIB  # of all requests that are under way, for each worker
    batch: int = 1  # whether requests that come at the same time share calls of Triton: 1 or 0
    api_keys_file: str = ""  # a key on each line, or a # and a comment; read anew when it changes
    api_keys: str = ""  # the same, with commas between them
    cors: str = ""  # origins of other pages that may ask, with commas between them; * is any
    root_path: str = ""  # where a proxy has the service

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Return the settings of an environment, or raise SettingsError for a value that can't be used."""
        given = {}
        for field in fields(cls):
            variable = f"GATEWAY_{field.name.upper()}"
            if text := environment.get(variable, ""):
                value = given[field.name] = _value(variable, text, type(field.default))
                if value == 0 and field.name not in MAY_BE_0:
                    raise SettingsError(f"{variable} is 0, and lets nothing in; write more")
                if field.name in FORMS and not FORMS[field.name][0].fullmatch(text):
                    raise SettingsError(f"{variable} is {text}; write {FORMS[field.name][1]}")
        if "max_rows" in given:
            given.setdefault("openai_rows", given["max_rows"])
        settings = cls(**given)
        if settings.api_keys_file:
            _check_keys(Path(settings.api_keys_file))
        return settings


def _check_keys(file: Path) -> None:
    try:
        problem = "" if read_keys(file) else "has no key; write one on each line"
    except (OSError, ValueError) as error:
        problem = explain(error)
    if problem:
        raise SettingsError(f"GATEWAY_API_KEYS_FILE: {file}: {problem}")


def _value(variable: str, text: str, kind: type[Any]) -> Any:
    if kind is str:
        return text
    try:
        value = kind(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise SettingsError(f"{variable} is {text}; write a number")
    return value
