"""The template as it stands in the working tree, and projects generated from it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import copier._main
import copier._template
import jinja2.environment
import pytest
import shared_work
import yaml
from hypothesis import HealthCheck, settings
from project_cache import Generator, ProjectCache
from support import WITHOUT_PLUGINS, Generate, Project, run, succeed

from triton_ensemble.serve import model_files

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
def _processes_repeat_no_work(pytestconfig: pytest.Config) -> Any:
    """Compile each hook and build each model file once for all processes, and read a YAML text and check out a template once in each.

    What the paths and files of a copy are rendered with is computed once too, without a git process for each.
    Together that is most of a copy, and an update is three.
    """
    assert pytestconfig.cache
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(shared_work.VARIABLE, str(pytestconfig.cache.mkdir("templates")))
        for module in (copier._main, copier._template, jinja2.environment, model_files, yaml):
            shared_work.CHANGES[module.__name__](module)
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
