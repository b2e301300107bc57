"""Other platforms than the local Triton's, faked: what needs no server works there, the rest says what to use instead."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from new_support import BRINGS, NAME, PYTHON, RUNS, WRITES, made
from support import COPIER, NOWHERE, SOURCES, Project, first_fast, run, succeed
from terminal import ENTER, Terminal

PLATFORMS = {
    "macOS": ("Darwin", "arm64"),
    "Linux on POWER": ("Linux", "ppc64le"),
    "Windows": ("Windows", "AMD64"),
}
# What an interpreter finds there: no /proc but on Linux, and on Windows neither these modules nor these names.
FAKE = """
import importlib.abc, os, pathlib, platform, signal, sys

platform.system, platform.machine = lambda: {system!r}, lambda: {machine!r}
platform.libc_ver = lambda *_, **__: ("", "")
if {system!r} != "Linux":
    exists = pathlib.Path.exists
    pathlib.Path.exists = lambda path: not str(path).startswith("/proc/") and exists(path)
if {system!r} == "Windows":
    for module, name in ((signal, "SIGHUP"), (os, "killpg"), (os, "sysconf")):
        delattr(module, name)

    class Missing(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name in ("fcntl", "psutil", "resource"):  # psutil takes this for Linux; not all have it
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

    sys.meta_path.insert(0, Missing())
    for name in ("fcntl", "resource"):
        sys.modules.pop(name, None)
"""
SERVERS = ("serve", "infer", "golden", "bench", "tune")


@pytest.fixture(params=PLATFORMS)
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Return variables with which a Python takes this machine for another one."""
    system, machine = PLATFORMS[request.param]
    folder = tmp_path / "fake"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(FAKE.format(system=system, machine=machine))
    return {"PYTHONPATH": f"{folder}:src:{SOURCES}"}


@pytest.fixture(scope="module")
def complete(default_project: Project) -> Project:
    succeed(default_project.make("repository"))
    return default_project


def command(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "triton_ensemble", *words)


@pytest.mark.slow
def test_check_and_adopt(complete: Project, elsewhere: dict[str, str]) -> None:
    for words in (("check", "model_repository"), ("check", "pipeline.yml"), ("repository",)):
        succeed(run(*command(*words), cwd=complete.path, **elsewhere))
    adopted = succeed(run(*command("adopt", "model_repository"), cwd=complete.path, **elsewhere))
    assert "name: preprocess" in adopted


@pytest.mark.slow
def test_make_check_and_lint(complete: Project, elsewhere: dict[str, str]) -> None:
    for target in ("check", "lint"):
        succeed(run(*complete.make_command(target), cwd=complete.path, **elsewhere))


@pytest.mark.slow
def test_update(git_template: Path, elsewhere: dict[str, str], tmp_path: Path) -> None:
    answers = ("--data", "starting_pipeline=my-own")
    copy = (str(COPIER), "copy", "--quiet", "--defaults", *answers, str(git_template), "p")
    succeed(run(*copy, cwd=tmp_path, **elsewhere))
    project = Project(tmp_path / "p")
    settings = (project / "pipeline.yml").read_text()
    (project / "pipeline.yml").write_text(settings.replace("size: 8", "size: 4"))
    project.commit()
    printed = succeed(run(*command("update"), cwd=project.path, **elsewhere))
    assert "pipeline.yml is applied" in printed


@pytest.mark.slow
def test_new(
    template: Path, elsewhere: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", elsewhere["PYTHONPATH"])
    words = ["-m", "triton_ensemble", "new", "p", "--template", str(template), "--data", "ci=none"]
    terminal = Terminal(words, tmp_path, program=Path(sys.executable))
    terminal.answer(NAME, "one" + ENTER)
    terminal.answer(RUNS, PYTHON)
    terminal.answer(BRINGS, "A FP32[1]" + ENTER)
    terminal.answer(WRITES, "B FP32[1]" + ENTER)
    terminal.answer(NAME, ENTER)
    made(terminal)


@pytest.mark.parametrize("name", first_fast(SERVERS))
def test_what_needs_a_server_says_what_to_use_instead(
    complete: Project, elsewhere: dict[str, str], request: pytest.FixtureRequest, name: str
) -> None:
    ports = {"HTTP_PORT": NOWHERE, "GRPC_PORT": NOWHERE, "METRICS_PORT": "0"}
    done = run(*command(name), cwd=complete.path, **elsewhere, **ports)
    assert done.returncode == 1
    assert [said(request)] == done.stderr.splitlines()


@pytest.mark.slow
def test_make_test_has_run_the_unit_tests_by_then(
    complete: Project, elsewhere: dict[str, str], request: pytest.FixtureRequest
) -> None:
    # What `make test-cluster` installs has a plugin, which knows no system but this one.
    pytests = (sys.executable, "-m", "pytest", "-p", "no:cloudcoil")
    done = run(*pytests, cwd=complete.path, **elsewhere)
    assert done.returncode == 1
    assert f"Exit: tests of a running Triton: {said(request)}" in done.stdout
    # What a process holds in memory is seen on Linux alone.
    assert re.search(r"= \d+ passed(, 2 skipped)? in", done.stdout)
    assert "Traceback" not in done.stdout + done.stderr


def said(request: pytest.FixtureRequest) -> str:
    """Return the line of the platform that a test runs on."""
    system, machine = PLATFORMS[request.node.callspec.params["elsewhere"]]
    instead = "work in WSL" if system == "Windows" else "use the container: make up"
    return (
        f"the local Triton runs on Linux x86_64 and aarch64, not on {system} {machine}; "
        f"open .devcontainer/, {instead}, or a server elsewhere: TRITON_URL=http://host:port"
    )


def test_no_lock_demands_there_what_has_no_wheel_there(default_project: Project) -> None:
    lock = (default_project / "requirements.lock").read_text()
    [triton] = re.findall(r"^nvidia-pytriton==.*", lock, re.MULTILINE)
    assert "sys_platform == 'linux'" in triton
