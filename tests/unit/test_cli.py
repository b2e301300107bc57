"""The command `triton-ensemble`: what it lists, and what it says of a wrong line."""

from __future__ import annotations

import importlib
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT

from triton_ensemble import __version__
from triton_ensemble.cli import COMMANDS, main


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int | str | None, str, str]:
    """Return the exit status, stdout and stderr of a line that argparse answers itself."""
    with pytest.raises(SystemExit) as raised:
        main(words)
    out, err = capsys.readouterr()
    return raised.value.code, out, err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = printed(capsys, "--help")
    assert status == 0
    assert [name for name in COMMANDS if f"\n    {name}" not in out] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_begins_with_what_it_does(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    status, out, _ = printed(capsys, command, "--help")
    assert status == 0
    usage, _, rest = out.partition("\n\n")
    assert usage.startswith(f"usage: triton-ensemble {command}")
    assert rest[0].isupper()
    assert max(map(len, out.splitlines())) <= 110


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--version") == (0, f"triton-ensemble {__version__}\n", "")


@pytest.mark.parametrize("words", [[], ["check", "--form"]])
def test_a_wrong_line_is_answered_by_one(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    status, out, err = printed(capsys, *words)
    assert (status, out) == (2, "")
    assert err.startswith("triton-ensemble")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("infr", "infr: no such command; did you mean infer? make lists them"),
        ("zzz", "zzz: no such command; make lists them"),
        ("kserve", "kserve has no command; docs/kserve.md says how to deploy"),
        ("monitoring", "monitoring has no command; docs/questions.md says what it adds"),
    ],
)
def test_a_word_that_is_no_command(
    capsys: pytest.CaptureFixture[str], word: str, line: str
) -> None:
    assert main([word]) == 2
    assert capsys.readouterr().err == f"{line}\n"
    pages = re.findall(r"docs/\S+\.md", line)
    assert [page for page in pages if not (ROOT / page).is_file()] == []


@pytest.mark.parametrize("package", ["yaml", "tritonclient", "nowhere"])
def test_a_package_that_the_environment_has_lost(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    package: str,
) -> None:
    """The owner's code may import another that is not there: its traceback says where."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", f"{tmp_path}/.venv")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/ready.json").touch()
    (tmp_path / "requirements.lock").write_text("pyyaml==6 \\\ntritonclient[grpc]==2\n")

    def fail(_: str) -> None:
        raise ModuleNotFoundError(name=f"{package}.x")

    monkeypatch.setattr(importlib, "import_module", fail)
    if package == "nowhere":
        with pytest.raises(ModuleNotFoundError):
            main(["check"])
    else:
        assert main(["check"]) == 2
        line = f".venv: lacks {package}.x; remove .venv, and run the command again\n"
        assert capsys.readouterr().err == line


@pytest.mark.parametrize("variable", ["TRITON_URL", "TRITON_GRPC_URL", "TRITON_METRICS_URL"])
@pytest.mark.parametrize("url", ["http://me:s3cret@host:8000", "http:/me:s3/cret@host"])
def test_a_password_in_an_address_is_refused_and_not_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, variable: str, url: str
) -> None:
    monkeypatch.setenv(variable, url)
    assert main(["infer"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"{variable} has a user or a password")


@pytest.fixture
def _python_handles_interrupts() -> Iterator[None]:
    """Undo what a local Triton of another test in this process has set."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_python_handles_interrupts")
def test_an_interrupt_while_a_command_is_imported_is_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib, "import_module", lambda _: signal.raise_signal(signal.SIGINT))
    assert main(["shift", "label", "2"]) == 130
    assert capsys.readouterr().err == ""
