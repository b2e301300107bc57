"""The local Triton, for real: what it serves, what it says when it can't, what it leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from serve_support import identity, logs_are_in, repository, served  # noqa: F401

from triton_ensemble.server.local_triton import LocalTriton, ServerError


@pytest.mark.parametrize("port", [-1, 65536])
def test_port_that_is_none(identity: Path, port: int) -> None:
    with pytest.raises(ServerError, match=f"^http can't have port {port};"):
        LocalTriton(identity, "a", http_port=port).__enter__()


def test_unknown_model(identity: Path) -> None:
    with pytest.raises(ServerError, match=r"has no model 'b'; it has a$"):
        LocalTriton(identity, "b").__enter__()


def refuse(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize(
    ("target", "value", "text"),
    [
        ("platform.machine", lambda: "arm64", "runs on Linux x86_64, not on Linux arm64"),
        ("platform.libc_ver", lambda: ("glibc", "2.31"), "needs glibc 2.35, not 2.31"),
        ("sys.version_info", (3, 13, 0), "runs on Python 3.10 to 3.12"),
        (
            "triton_ensemble.server.environment._version",
            {"numpy": "1.26.4"}.get,
            "pip install nvidia-pytriton==0.7.0",
        ),
        (
            "triton_ensemble.server.environment._version",
            lambda package: "2.1.0",
            "needs numpy<2, not 2.1.0",
        ),
        ("triton_ensemble.server.environment.LIBPYTHON", "libnosuch.so", "has no libnosuch.so"),
        ("subprocess.Popen", refuse, "Triton can't be started: "),
    ],
)
def test_wrong_environment(
    identity: Path, monkeypatch: pytest.MonkeyPatch, target: str, value: Any, text: str
) -> None:
    monkeypatch.setattr(target, value)
    with pytest.raises(ServerError, match=text):
        LocalTriton(identity, "a").__enter__()
