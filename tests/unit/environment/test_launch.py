"""Where commands start, before there is an environment: what they need, what errors of set-up say, and the Makefile."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import ROOT, Generate, Project, step

from triton_ensemble.environment.help import GROUPS
from triton_ensemble.environment.needs import (
    BESIDE,
    DEV,
    STORED,
    list_parts,
)
from triton_ensemble.environment.remedies import explain
from triton_ensemble.facts import catalog
from triton_ensemble.facts.project import ProjectError
from triton_ensemble.launch import Environment, main
from triton_ensemble.serve.stubs import is_strict
from triton_ensemble.targets import (
    MAKE_OPTIONS,
    SHELL_OPTIONS,
    list_options,
    run_target,
)

PACKAGE = ROOT / "src/triton_ensemble"
# The modules that any Python 3.9 or newer can run.
EARLY = [PACKAGE / name for name in ("__init__.py", "__main__.py", "launch.py")]
EARLY += sorted(
    PACKAGE / f"environment/{name}.py"
    for name in ("__init__", "extras", "help", "needs", "remedies")
)
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
    early = {
        f"triton_ensemble.environment.{name}" for name in ("extras", "help", "needs", "remedies")
    }
    ours = {f"triton_ensemble{name}" for name in ("", ".cli", ".launch", ".environment")}
    assert foreign <= ours | early
    assert len(path.read_text().splitlines()) <= 250


@pytest.mark.parametrize(
    ("command", "variables", "parts"),
    [
        ("infer", {}, ["packages", "toolkit"]),
        ("test", {}, ["packages", "toolkit", "dev"]),
        ("shift", {"STORE": "s3://b"}, ["packages", "toolkit", "dev", "push"]),
        ("infer", {"STORE": "s3://b"}, ["packages", "toolkit", "push"]),
        ("lock", {}, []),
        ("setup gateway", {}, ["packages", "toolkit", "gateway"]),
        ("setup", {"ARGS": "push", "MAKEFLAGS": "w -- ARGS=push"}, ["packages", "toolkit", "push"]),
    ],
)
def test_a_command_has_the_packages_that_it_needs(
    command: str, variables: dict[str, str], parts: list[str]
) -> None:
    assert list_parts(command.split(), variables) == parts


def test_an_undo_takes_the_toolkit_that_is_there() -> None:
    """After an update whose toolkit needs a package that the lock lacks."""
    made, environment = {"packages": "1", "toolkit": "1"}, Environment()
    for words, state, parts in (
        (["update", "--undo"], made, []),
        (["update", "--undo"], {"packages": "1"}, ["toolkit"]),
        (["update"], made, ["toolkit"]),
        (["update", "--undo"], {}, ["packages", "toolkit"]),
    ):
        environment.state = state
        assert environment._list_parts(words, is_applied=False) == parts


def test_make_e_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAKEFLAGS", "e -- $(MAKEOVERRIDES)")
    assert main(["apply"]) == 2
    assert capsys.readouterr().err.startswith("make -e hides the variables")


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
            "as `torch_index` in pipeline.yml",
        ),
        (
            " there is no version of torch{python_full_version < '3.13'}==2.13.0+cpu",
            "`torch_index`",
        ),
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
        ("promote", {"FROM": "staging"}, "'' staging"),
        ("shift", {"NAME": "a", "VERSION": "2", "ROLL": "x y"}, "'--roll=x y' a 2"),
        ("rollback", {}, ""),
        ("push", {"TO": "s3://b", "VERSION": "7"}, "--version=7 s3://b"),
        ("serve", {"RELOAD": "1", "HTTP_PORT": "1"}, "--http-port=1 --reload"),
        ("step", {"NAME": "a", "DEBUG": "1"}, "--debug a"),
        ("step", {"NAME": "a", "DEBUG": "0"}, "a"),
        ("apply", {"UNDO": "No"}, ""),
        ("sample", {"OUTPUTS": "false"}, ""),
        ("update", {"MARKERS": "on", "UNDO": ""}, "--markers"),
    ],
)
def test_variables_of_make_are_options(command: str, variables: dict[str, str], words: str) -> None:
    environment = {**variables, "MAKEFLAGS": " ".join(f"{name}=x" for name in variables)}
    assert list_options([command], environment) == shlex.split(words)
    # What the command starts does not see the others.
    assert {*environment} <= {"HTTP_PORT", "MAKEFLAGS"}


PORT = "; write a port, 1 to 65535, or 0 for a free one"


@pytest.mark.parametrize(
    ("command", "variable", "line"),
    [
        ("check", "ARGS=it's", "ARGS: No closing quotation; write it's with its quotes closed"),
        ("infer", "HTTP_PORT=abc", f"HTTP_PORT is abc{PORT}"),
        ("gateway", "GATEWAY_PORT=99999", f"GATEWAY_PORT is 99999{PORT}"),
        ("serve", "METRICS_PORT=-1", f"METRICS_PORT is -1{PORT}"),
    ],
)
def test_a_line_names_the_variable_that_is_wrong(command: str, variable: str, line: str) -> None:
    name, _, text = variable.partition("=")
    with pytest.raises(ProjectError) as refused:
        list_options([command], {name: text, "MAKEFLAGS": variable})
    assert str(refused.value) == line


@pytest.mark.parametrize(("text", "is_on"), [("0", False), ("No", False), ("", False), ("1", True)])
def test_strict_can_mean_no(monkeypatch: pytest.MonkeyPatch, text: str, is_on: bool) -> None:
    monkeypatch.setenv("STRICT", text)
    assert is_strict() is is_on


@pytest.mark.parametrize(
    ("flags", "stage"),
    [
        (None, "test"),
        ("w", "test"),
        (r"w -- NAME=one\ ENV=two", "test"),
        ("ENV=prod", "prod"),  # of make 3.81
        ("-j4 -- NAME=a ENV:=prod", "prod"),
    ],
)
def test_env_of_make_names_the_stage(flags: str | None, stage: str) -> None:
    """A shell may have a variable ENV, which is a file that it reads."""
    environment = {"STAGE": "test", "ENV": "prod"} | ({"MAKEFLAGS": flags} if flags else {})
    list_options(["serve"], environment)
    assert environment["STAGE"] == stage


def test_words_of_a_command_are_not_joined_by_variables() -> None:
    environment = {"ARGS": "x", "NAME": "a", "HTTP_PORT": "1", "MAKEFLAGS": "ARGS=x NAME=a"}
    assert list_options(["sample", "IMAGE=1"], environment) == []
    assert list_options(["serve", "--reload"], environment) == ["--http-port=1"]


@pytest.mark.parametrize(
    ("command", "steps"),
    [
        ("check", ["repository --if-applied", "check --format=github"]),
        ("infer", ["apply --unless-ci", "repository", "infer"]),
        ("image", ["apply --unless-ci", "repository", "image"]),
        ("down", ["down"]),
        (
            "test",
            ["apply --unless-ci", "lint --quick", "repository", "check --format=github", "test"],
        ),
    ],
)
def test_a_target_is_a_list_of_commands(
    default_project: Project, monkeypatch: pytest.MonkeyPatch, command: str, steps: list[str]
) -> None:
    called: list[str] = []
    monkeypatch.chdir(default_project.path)
    for name, value in {"MAKEFLAGS": "FORMAT=github", "FORMAT": "github", "SETUP": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("triton_ensemble.serve.stubs.main", lambda: 0)

    def call(words: Sequence[str]) -> int:
        called.append(" ".join(words))
        return 0

    assert run_target([command], call) == 0
    assert called == steps


EVERYTHING: dict[str, Any] = {
    "gpu_count": 1,
    "extras": list(catalog.table("extras")),
    "tensors": {"A": "FP32[4]", "B": "FP32[4]"},
    "steps": [step("net", {"a": "A"}, {"b": "B"}, "tensorrt", trtexec=True)],
}
OF_EXTRAS = {"engines"}.union(
    *(row.get("commands", []) for row in catalog.table("extras").values())
)


@pytest.mark.parametrize(
    ("answers", "lines", "absent"), [({"extras": []}, 80, OF_EXTRAS), (EVERYTHING, 120, set())]
)
def test_the_makefile_is_a_list_that_any_make_reads(
    generate: Generate, answers: dict[str, Any], lines: int, absent: set[str]
) -> None:
    """Targets of an extra are there if it is chosen."""
    makefile = (generate(**answers) / "Makefile").read_text()
    assert not NEWER.findall(makefile)
    assert len(makefile.splitlines()) <= lines
    targets = re.findall(r"^([a-z-]+): ; @\$\(RUN\) \$@$", makefile, re.M)
    assert {*targets} == {"help"} | {name for group in GROUPS.values() for name in group} - absent
    phony = re.findall(r"^\.PHONY: (.*)", makefile, re.M)[0].split()
    [folders] = re.findall(r"^\.DEFAULT (.*): ; @\$\(RUN\) \$@$", makefile, re.M)
    assert phony == targets + folders.split()
    assert {"gateway", "tests"} <= {*phony}
    assert len(re.findall(r"^\S+?:(?!=)", makefile, re.M)) == len(targets) + 1  # .PHONY
    if not absent:
        assert {*MAKE_OPTIONS, *SHELL_OPTIONS, *BESIDE, *DEV, *STORED} <= {*targets}


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
