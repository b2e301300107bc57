"""Where commands start, before there is an environment: what they need, what errors of set-up say, and the Makefile."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import ROOT, Generate, Project

from triton_ensemble.environment.help import GROUPS
from triton_ensemble.environment.needs import BESIDE, DEV, STORED, list_parts
from triton_ensemble.launch import Environment, explain
from triton_ensemble.targets import MAKE_OPTIONS, SHELL_OPTIONS, list_options

PACKAGE = ROOT / "src/triton_ensemble"
# The modules that any Python 3.9 or newer can run.
EARLY = [PACKAGE / name for name in ("__init__.py", "__main__.py", "launch.py")]
EARLY += sorted(PACKAGE / f"environment/{name}.py" for name in ("__init__", "help", "needs"))
NEWER = re.compile(
    r"\bprivate\b|\.ONESHELL|!=|\$\(file\b|\bundefine\b|\$\(eval\b|^define\b|^ifn?eq\b", re.M
)


@pytest.mark.parametrize("path", EARLY, ids=lambda path: path.stem)
def test_what_starts_a_command_is_valid_for_python_3_9(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    names = {
        name
        for node in ast.walk(tree)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    foreign = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
    ours = {"triton_ensemble", "triton_ensemble.cli", "triton_ensemble.launch"}
    assert foreign <= ours | {f"triton_ensemble.environment.{name}" for name in ("help", "needs")}
    assert len(path.read_text().splitlines()) <= 250


@pytest.mark.parametrize(
    ("command", "variables", "parts"),
    [
        ("infer", {}, ["packages", "toolkit"]),
        ("test", {}, ["packages", "toolkit", "dev"]),
        ("shift", {"STORE": "s3://b"}, ["packages", "toolkit", "dev", "push"]),
        ("infer", {"STORE": "s3://b"}, ["packages", "toolkit", "push"]),
        ("ray-test", {}, ["packages", "toolkit", "ray"]),
        ("tir", {}, ["packages", "toolkit", "tir"]),
        ("tir", {"PRINT": "1"}, ["packages", "toolkit"]),
        ("lock", {}, []),
        ("setup ray", {}, ["packages", "toolkit", "ray"]),
        ("setup", {"ARGS": "tir"}, ["packages", "toolkit", "tir"]),
    ],
)
def test_a_command_has_the_packages_that_it_needs(
    command: str, variables: dict[str, str], parts: list[str]
) -> None:
    assert list_parts(command.split(), variables) == parts


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("error: x\n  Caused by: No space left on device (os error 28)", "make room there"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left", "room"),
        ("  Caused by: tunnel error: unsuccessful", "correct HTTPS_PROXY or NO_PROXY"),
        ("WARNING: ProxyError('Cannot connect to proxy.')", "correct HTTPS_PROXY or NO_PROXY"),
        ("  Caused by: invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed", "PIP_CERT"),
        ("  Caused by: dns error", "check the network"),
        ("NewConnectionError: Temporary failure in name resolution", "check the network"),
        (
            "ERROR: No matching distribution found for torch==2.13.0+cpu",
            "as TORCH_INDEX in the Makefile",
        ),
        (" there is no version of torch{python_full_version < '3.13'}==2.13.0+cpu", "TORCH_INDEX"),
        ("error: Read-only file system (os error 30)", "make it writable"),
    ],
)
def test_an_error_of_set_up_is_a_line_with_a_remedy(said: str, line: str) -> None:
    explained = explain("requirements.lock", f"Resolving ...\n{said}\n", "uv")
    assert explained.startswith(f"requirements.lock: {said.splitlines()[-1].strip()}; ")
    assert line in explained
    assert "\n" not in explained


def test_an_error_without_a_remedy_is_shown_whole() -> None:
    explained = explain("requirements.lock", "error: Hash mismatch\nExpected: 1", "uv")
    assert explained.splitlines() == [
        "error: Hash mismatch",
        "Expected: 1",
        "requirements.lock: can't be installed, as uv says above; then run: make setup",
    ]


@pytest.mark.parametrize(
    ("command", "variables", "words"),
    [
        ("infer", {}, ""),
        (
            "sample",
            {"NAME": "cat", "OUTPUTS": "1", "ARGS": "'IMAGE=@a b.jpg'"},
            "--name=cat --outputs 'IMAGE=@a b.jpg'",
        ),
        ("publish", {"NAME": "a"}, "a ''"),
        ("shift", {"NAME": "a", "VERSION": "2", "ROLL": "x y"}, "'--roll=x y' a 2"),
        ("rollback", {}, ""),
        ("push", {"TO": "s3://b", "VERSION": "7"}, "--version=7 s3://b"),
        ("serve", {"RELOAD": "1", "HTTP_PORT": "1"}, "--http-port=1 --reload"),
        ("step", {"NAME": "a", "DEBUG": "1"}, "--debug a"),
    ],
)
def test_variables_of_make_are_options(command: str, variables: dict[str, str], words: str) -> None:
    environment = {**variables, "BY_MAKE": "1"}
    assert list_options(command, environment) == shlex.split(words)
    assert {*environment} <= {"HTTP_PORT"}  # what the command starts does not see the others


def test_without_make_variables_are_those_of_the_shell() -> None:
    environment = {"NAME": "DESKTOP-1", "ARGS": "x", "HTTP_PORT": "1"}
    assert list_options("serve", environment) == ["--http-port=1"]
    assert list_options("sample", environment) == []


def test_the_makefile_is_a_list_that_any_make_reads(generate: Generate) -> None:
    project = generate(extras=["monitoring", "gateway", "kubernetes", "kserve", "tir", "ray"])
    makefile = (project / "Makefile").read_text()
    assert not NEWER.findall(makefile)
    [here] = re.findall(r"^HERE := (.*)", makefile, re.M)
    options = {name for table in MAKE_OPTIONS.values() for name in table}
    assert {*here.split()} == options | {"ARGS", "ENV"}
    assert {*re.findall(r"^([a-z-]+):", makefile, re.M)} - {"help", "needs-gateway", "needs-"} == {
        name for targets in GROUPS.values() for name in targets
    }
    simple = {*re.findall(r"^([a-z-]+): ; @\$\(RUN\) \$@$", makefile, re.M)}
    assert {*MAKE_OPTIONS, *SHELL_OPTIONS, *BESIDE, *DEV, *STORED} - {"test-docker"} <= simple


def test_targets_of_extras_are_there_if_they_are_chosen(generate: Generate) -> None:
    makefile = (generate(extras=[]) / "Makefile").read_text()
    assert {"gateway", "ray", "ray-test", "tir"} & {
        *re.findall(r"^([a-z-]+):", makefile, re.M)
    } == set()


def test_on_windows_a_command_is_a_child_process(
    default_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that replaces another has its number there, but not its console."""
    monkeypatch.chdir(default_project.path)
    monkeypatch.setenv("VENV", "venv")
    environment = Environment()
    ran: list[tuple[list[str], dict[str, str]]] = []

    def note(command: list[str], env: dict[str, str]) -> SimpleNamespace:
        ran.append((command, env))
        return SimpleNamespace(returncode=7)

    with monkeypatch.context() as patch:
        patch.setattr("triton_ensemble.launch.os.name", "nt")
        patch.setattr("triton_ensemble.launch.subprocess.run", note)
        with pytest.raises(SystemExit) as end:
            environment.enter(["gateway", "--workers=2"])
    [(command, variables)] = ran
    assert command == ["venv/bin/python", "-m", "triton_ensemble", "gateway", "--workers=2"]
    assert variables["PYTHONPATH"].startswith("venv/gateway")
    assert end.value.code == 7
