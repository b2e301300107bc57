"""The local Triton, for real: what it serves, what it says when it can't, what it leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from serve_support import identity, logs_are_in, repository, served  # noqa: F401

from triton_ensemble.serve.local.environment import problems
from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.process import ServerError


@pytest.mark.parametrize("port", [-1, 65536])
def test_port_that_is_none(identity: Path, port: int) -> None:
    with pytest.raises(ServerError, match=f"^http can't have port {port};"):
        LocalTriton(identity, "a", http_port=port).__enter__()


def test_unknown_model(identity: Path) -> None:
    with pytest.raises(ServerError, match=r"has no model 'b'; it has a$"):
        LocalTriton(identity, "b").__enter__()


def refuse(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


def fill_disk(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("target", "value", "text"),
    [
        (
            "platform.machine",
            lambda: "riscv64",
            "runs on Linux x86_64 and aarch64, not on Linux riscv64; open .devcontainer/, use",
        ),
        ("platform.libc_ver", lambda: ("glibc", "2.31"), "needs glibc 2.35, not 2.31"),
        ("sys.version_info", (3, 13, 0), "runs on Python 3.10 to 3.12"),
        (
            "triton_ensemble.serve.local.environment._version",
            {"numpy": "1.26.4"}.get,
            "pip install nvidia-pytriton==0.7.0",
        ),
        (
            "triton_ensemble.serve.local.environment._version",
            lambda package: "2.1.0",
            "needs numpy<2, not 2.1.0",
        ),
        (
            "triton_ensemble.serve.local.environment.LIBPYTHON",
            "libnosuch.so",
            "has no libnosuch.so",
        ),
        *(
            (
                "tempfile.tempdir",
                folder,
                r"^'/dev/shm/.*': a blank, a letter .*; name another, such as TMPDIR=/tmp",
            )
            for folder in ("/dev/shm/a b", "/dev/shm/ö", "/dev/shm/$a")
        ),
        ("subprocess.Popen", refuse, "Triton can't be started: "),
        (
            "shutil.copyfile",  # as copytree() calls it, which goes on and lists all errors
            fill_disk,
            r"started: \[Errno 28\] No space left on device; make room in .*, or name another folder with TMPDIR$",
        ),
    ],
)
def test_wrong_environment(
    identity: Path, monkeypatch: pytest.MonkeyPatch, target: str, value: Any, text: str
) -> None:
    monkeypatch.setattr(target, value)
    with pytest.raises(ServerError, match=text):
        LocalTriton(identity, "a").__enter__()


def test_linux_on_arm_is_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    for machine in ("x86_64", "aarch64"):
        monkeypatch.setattr("platform.system", lambda: "Linux")
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        assert not [problem for problem in problems() if "runs on Linux" in problem]


def test_numpy_of_a_command_is_not_that_of_python_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make gateway` has NumPy 2 in PYTHONPATH, which Python models do not get."""
    metadata = tmp_path / "numpy-2.5.0.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 2.5.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    for path, is_wrong in ((str(tmp_path), False), ("", True)):
        monkeypatch.setenv("PYTHONPATH", path)
        assert any("not 2.5.0" in problem for problem in problems()) is is_wrong
