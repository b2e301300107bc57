"""The render of `apply` is Copier's, byte for byte. The wheel has the templates that it needs."""

from __future__ import annotations

import os
import random
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import copier
import pytest
import yaml
from grammar import some_answers
from jinja2 import Environment
from jinja2.sandbox import SandboxedEnvironment
from support import PIPELINES, ROOT, UNUSUAL, Generate, Project, slow_but

from triton_ensemble import __version__
from triton_ensemble.compile import environment
from triton_ensemble.compile.environment import TrustedEnvironment
from triton_ensemble.compile.render import list_templates, render
from triton_ensemble.compile.rules import Rules
from triton_ensemble.facts import catalog
from triton_ensemble.facts.answers import FILE, read_answers

# More, and others: DRAWN=300 SEED=7 python -m pytest tests/unit/compile/test_render.py -k drawn
DRAWN = int(os.environ.get("DRAWN", "4"))
SEED = int(os.environ.get("SEED", "0"))
EACH = PIPELINES | UNUSUAL
MORE: dict[str, dict[str, Any]] = {
    "all extras": {
        "extras": [*reversed(catalog.table("extras"))],  # in another order than Copier records
        "gpu_count": 2,
        "ci": "gitlab",
    },
    "nothing": {"extras": [], "ci": "none"},
}
LOCKS = {"requirements.lock", "requirements-dev.lock"}
VENDORED = {"vendor/requirements.txt", f"vendor/triton_ensemble-{__version__}-py3-none-any.whl"}


@pytest.fixture(scope="module")
def rules() -> Rules:
    return Rules()


def assert_rendered(rules: Rules, project: Project, answers: dict[str, Any]) -> None:
    """Compare a project with the render of its answers, and of those that it recorded."""
    made = yaml.safe_load((project / FILE).read_bytes())
    files = render(rules, answers, made)
    pipeline, _ = read_answers(project / "pipeline.yml")
    assert render(rules, made, made) == files == render(rules, made | pipeline, made)
    written = project.contents()
    graph = rules.answer(answers)["graph"]
    assert written.keys() - files.keys() == LOCKS | VENDORED | example_files(graph)
    assert files.keys() <= written.keys()
    wrong = [path for path, file in files.items() if file.content != written[path]]
    assert wrong == []
    executable = {path for path in files if (project / path).stat().st_mode & stat.S_IXUSR}
    assert executable == set()  # a file that `apply` adds is not executable either


def example_files(graph: dict[str, Any]) -> set[str]:
    """Return the files of an example that only a copy writes: all in its folders, and code of its own."""
    if not graph["example"]:
        return set()
    folder = ROOT / "examples" / graph["example"]
    files = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    folders = tuple(each for each in graph["owned"] if each.endswith("/"))
    return {path for path in files if path in graph["example_files"] or path.startswith(folders)}


@pytest.mark.parametrize("name", slow_but("default", "kinds of steps", names=EACH))
def test_a_project_is_rendered_as_copier_writes_it(
    name: str, rules: Rules, generate: Generate
) -> None:
    assert_rendered(rules, generate(**EACH[name]), EACH[name])


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("name", slow_but("nested ensemble, interfaces of its own", names=EACH))
def test_so_is_one_with_other_extras_and_ci(
    name: str, more: str, rules: Rules, generate: Generate
) -> None:
    answers = MORE[more] | EACH[name]
    assert_rendered(rules, generate(**answers), answers)


@pytest.mark.slow
def test_so_are_drawn_answers(rules: Rules, template: Path, tmp_path: Path) -> None:
    drawn = (answers for answers, _ in some_answers(DRAWN * 4, SEED))
    accepted = [answers for answers in drawn if not rules.problem(answers)][:DRAWN]
    assert accepted
    for number, answers in enumerate(accepted):
        answers = random.Random(f"{SEED} {number}").choice([{}, *MORE.values()]) | answers
        folder = tmp_path / str(number)
        copier.run_copy(str(template), folder, data=answers, defaults=True, quiet=True)
        assert_rendered(rules, Project(folder), answers)
        shutil.rmtree(folder)


def test_the_wheel_has_what_is_rendered_and_no_other_file_of_the_template() -> None:
    wheel = pytest.importorskip(
        "hatchling.builders.wheel", reason="locks/requirements-unit.lock lacks it"
    )
    files = wheel.WheelBuilder(str(ROOT)).recurse_included_files()
    carried = {file.distribution_path.partition("/")[2] for file in files}
    pipelines = {str(path.relative_to(ROOT)) for path in ROOT.glob("examples/*/pipeline.yml")}
    templates = {f"template/{path}" for path in list_templates(ROOT / "template")}
    assert {p for p in carried if p.startswith(("examples/", "template/"))} == templates | pipelines


def test_no_template_that_is_rendered_is_executable() -> None:
    """A file that `apply` adds is not."""
    root = ROOT / "template"
    modes = {path: (root / path).stat().st_mode for path in list_templates(root)}
    assert [path for path, mode in modes.items() if mode & stat.S_IXUSR] == []


def test_templates_are_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "environment.py"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    answers = PIPELINES["default"]
    expected = Rules().answer(answers)
    assert not list(tmp_path.iterdir())  # there is no folder for it
    folder = tmp_path / "__pycache__"
    folder.mkdir()
    assert Rules().answer(answers) == expected
    assert list(folder.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(Environment, "compile", None)  # what is read is not compiled
        assert Rules().templates.macro("names", "package")("a-b") == "a_b"
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[:20])  # as a machine that crashes may leave it
    assert Rules().answer(answers) == expected


@pytest.mark.parametrize("name", ["__class__", "_x", "items"])
def test_names_of_answers_are_no_attributes(name: str) -> None:
    trusted, sandbox = TrustedEnvironment(), SandboxedEnvironment()
    for text in ("{{ {}[name] is defined }}", "{{ {name: 1}[name] }}", "{{ ''[name] is defined }}"):
        assert trusted.from_string(text).render(name=name) == sandbox.from_string(text).render(
            name=name
        )
