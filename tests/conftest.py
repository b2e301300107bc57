"""The template as it stands in the working tree, and projects generated from it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import copier
import copier._main
import jinja2
import pytest
from copier._jinja_ext import get_yield_context
from support import ROOT, Generate, Project, run, succeed

pytest_plugins = ["pytester", "upstream_race"]


@pytest.fixture(scope="session", autouse=True)
def _no_settings_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Keep the user's settings of Copier out: answers that they fill in, and templates that they trust."""
    settings = tmp_path_factory.mktemp("settings") / "settings.yml"
    settings.write_text("trust: []\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COPIER_SETTINGS_PATH", str(settings))
        patch.setenv("MYPY_CACHE_DIR", str(settings.with_name("mypy")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _copier_repeats_no_work() -> Any:
    """Compile each hook once, and start no git process for each file: that is most of a copy, and an update is three."""
    known: dict[tuple[str, str | None], Any] = {}
    compiled = jinja2.Environment.compile

    def compile(
        self: jinja2.Environment, source: str, name: str | None = None, *more: Any, **options: Any
    ) -> Any:
        if name is None:  # a path or a question; to compile one sets what a path yields
            if "{% yield" in source:
                return compiled(self, source, name, *more, **options)
            yields = get_yield_context(self)
            yields.yield_name = yields.yield_iterable = None
        if (source, name) not in known:
            known[source, name] = compiled(self, source, name, *more, **options)
        return known[source, name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jinja2.Environment, "compile", compile)
        # For file systems that know no executable files.
        name = "_sync_git_index_executable_bit"
        patch.setattr(copier._main.Worker, name, lambda *_: None, raising=False)
        yield


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a plain folder of the files that git knows or would add: the quickest to copy from."""
    folder = tmp_path_factory.mktemp("template")
    names = succeed(run("git", "ls-files", "-zco", "--exclude-standard", cwd=ROOT))
    for name in names.rstrip("\0").split("\0"):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


@pytest.fixture(scope="session")
def git_template(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a git repository of the template with the tag v1.0.0."""
    folder = tmp_path_factory.mktemp("git") / "template"
    shutil.copytree(template, folder, symlinks=True)
    for command in ("init -q", "add --all", "commit -q -m v1", "tag v1.0.0"):
        succeed(run("git", *command.split(), cwd=folder))
    return folder


@pytest.fixture(scope="session")
def generate(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Generate:
    """Return what generates a project, without trust, from answers; those not given are the defaults."""

    def project(**answers: Any) -> Project:
        folder = tmp_path_factory.mktemp("project") / "p"
        copier.run_copy(
            str(template), folder, data=answers, defaults=True, quiet=True, unsafe=False
        )
        return Project(folder)

    return project


@pytest.fixture(scope="session")
def default_project(generate: Generate) -> Project:
    """Return the project of all defaults, which tests share: they read it, and build in it, but change nothing."""
    return generate()
