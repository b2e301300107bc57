"""The template as it stands in the working tree, and projects generated from it."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import jinja2
import pytest
import yaml
from hypothesis import HealthCheck, settings
from project_cache import Generator, ProjectCache
from support import WITHOUT_PLUGINS, Generate, Project, run, succeed

# Test modules are compiled once, also where Python is told to write no code: pytest takes 10 s to rewrite all of them.
WRITES_NO_CODE, sys.dont_write_bytecode = sys.dont_write_bytecode, False
SUITES = ("unit", "process", "triton", "docker", "cluster", "browser", "rayserve")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the name of its folder, which says what it needs."""
    for item in items:
        for suite in {*item.path.parts} & {*SUITES}:
            item.add_marker(suite)


def pytest_collection_finish() -> None:
    sys.dont_write_bytecode = WRITES_NO_CODE


pytest_plugins = ["pytester", "upstream_race"]

if os.environ.get("COVERAGE") == "workers" and "PYTEST_XDIST_WORKER" in os.environ:
    del os.environ["COVERAGE_PROCESS_START"]  # of the processes that this one starts

# How long an example takes says how busy the machine is. With CI=true, Hypothesis has a profile of its own to start from.
settings.register_profile(
    "any speed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any speed")


@pytest.fixture(scope="session", autouse=True)
def _no_settings_of_the_user(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Any:
    """Keep the user's settings of Copier out: answers that they fill in, and templates that they trust.

    So is CI=true, with which a generated project applies no changed pipeline.yml: most tests are at an owner's desk.
    """
    assert pytestconfig.cache
    settings = tmp_path_factory.mktemp("settings") / "settings.yml"
    settings.write_text("trust: []\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COPIER_SETTINGS_PATH", str(settings))
        patch.delenv("CI", raising=False)
        patch.setenv("PYTEST_ADDOPTS", WITHOUT_PLUGINS)
        # All workers and all runs share what mypy knows of NumPy and the like: a cold start takes 15 seconds.
        patch.setenv("MYPY_CACHE_DIR", str(pytestconfig.cache.mkdir("mypy")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _read_texts_once() -> Iterator[None]:
    """Let this process compile each template once and read each YAML text once, which is nine tenths of a copy."""
    compiled, known = jinja2.Environment.compile, dict[Any, CodeType]()
    load, values = yaml.safe_load, dict[str, bytes]()

    def compile_once(
        self: Any, source: Any, name: str | None = None, filename: str | None = None, **more: Any
    ) -> Any:
        if more or not isinstance(source, str):
            return compiled(self, source, name, filename, **more)
        self.preprocess(source, name, filename)  # Copier's extension has state
        key = self.lexer, type(self), *self.extensions, self.autoescape, name, source
        if key not in known:
            known[key] = compiled(self, source, name, filename)
        return rename_file(known[key], filename or "<template>")

    def load_once(stream: Any) -> Any:
        if not isinstance(stream, str):
            return load(stream)
        if stream not in values:
            values[stream] = pickle.dumps(load(stream))
        return pickle.loads(values[stream])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jinja2.Environment, "compile", compile_once)
        patch.setattr(yaml, "safe_load", load_once)
        yield


def rename_file(code: CodeType, filename: str) -> CodeType:
    """Return the code as compiled from this file, which may be a copy of another."""
    if code.co_filename == filename:
        return code
    inner = (rename_file(c, filename) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_filename=filename, co_consts=tuple(inner))


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
