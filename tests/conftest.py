"""The template as it stands in the working tree, and projects generated from it."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import copier._main
import jinja2
import pytest
import yaml
from copier._jinja_ext import get_yield_context
from project_cache import Generator, ProjectCache
from support import Generate, Project, run, succeed

SUITES = ("unit", "process", "triton", "docker", "cluster", "browser", "rayserve")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the name of its folder, which says what it needs."""
    for item in items:
        for suite in {*item.path.parts} & {*SUITES}:
            item.add_marker(suite)


pytest_plugins = ["pytester", "upstream_race"]


@pytest.fixture(scope="session", autouse=True)
def _no_settings_of_the_user(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Any:
    """Keep the user's settings of Copier out: answers that they fill in, and templates that they trust."""
    assert pytestconfig.cache
    settings = tmp_path_factory.mktemp("settings") / "settings.yml"
    settings.write_text("trust: []\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COPIER_SETTINGS_PATH", str(settings))
        # All workers and all runs share what mypy knows of NumPy and the like: a cold start takes 15 seconds.
        patch.setenv("MYPY_CACHE_DIR", str(pytestconfig.cache.mkdir("mypy")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _copier_repeats_no_work() -> Any:
    """Compile each hook and read each YAML text once, and start no git process for each file.

    Together that is most of a copy, and an update is three.
    """
    known: dict[tuple[str, str | None], Any] = {}
    compiled = jinja2.Environment.compile
    load = yaml.safe_load
    loaded: dict[str, bytes] = {}

    def safe_load(stream: Any) -> Any:
        if not isinstance(stream, str):
            return load(stream)
        if stream not in loaded:
            loaded[stream] = pickle.dumps(load(stream))
        return pickle.loads(loaded[stream])

    def compile(
        self: jinja2.Environment, source: Any, name: str | None = None, *more: Any, **options: Any
    ) -> Any:
        if not isinstance(source, str):  # an expression
            return compiled(self, source, name, *more, **options)
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
        patch.setattr(yaml, "safe_load", safe_load)
        # For file systems that know no executable files.
        name = "_sync_git_index_executable_bit"
        patch.setattr(copier._main.Worker, name, lambda *_: None, raising=False)
        yield


@pytest.fixture(scope="session")
def project_cache(pytestconfig: pytest.Config) -> ProjectCache:
    """Return the generated projects that all workers and all runs share, as long as the template is the same."""
    assert pytestconfig.cache
    return ProjectCache(pytestconfig.cache.mkdir("projects"))


@pytest.fixture(scope="session")
def template(project_cache: ProjectCache) -> Path:
    """Return a plain folder of the template's files that git knows or would add: the quickest to copy from."""
    return project_cache.template


@pytest.fixture(scope="session")
def git_template(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a git repository of the template with the tag v1.0.0."""
    folder = tmp_path_factory.mktemp("git") / "template"
    shutil.copytree(template, folder, symlinks=True)
    for command in ("init -q", "add --all", "commit -q -m v1", "tag v1.0.0"):
        succeed(run("git", *command.split(), cwd=folder))
    return folder


@pytest.fixture(scope="session")
def generate(project_cache: ProjectCache, tmp_path_factory: pytest.TempPathFactory) -> Generate:
    """Return what generates a project, without trust."""
    return Generator(project_cache, tmp_path_factory)


@pytest.fixture(scope="session")
def default_project(generate: Generate) -> Project:
    """Return the project of all defaults, which tests share: they read it, and build in it, but change nothing."""
    return generate()
