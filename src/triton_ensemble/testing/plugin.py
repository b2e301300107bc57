"""Pytest's plugin for generated projects: it reads the project's facts, then loads the fixtures of its tests."""

from __future__ import annotations

import pytest

from triton_ensemble.facts.project import Project, ProjectError
from triton_ensemble.serve import RepositoryError
from triton_ensemble.serve.complete import complete
from triton_ensemble.testing import under_test
from triton_ensemble.testing.imports import find_gone_types, iter_undeclared

pytest.register_assert_rewrite(
    "triton_ensemble.testing.contract",
    "triton_ensemble.testing.docker_tests",
    "triton_ensemble.testing.live",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings of contract tests to [tool.pytest.ini_options]."""
    parser.addini("contract_timeout_s", "seconds that a step has for a call", default="10")
    parser.addini("contract_budget_s", "seconds for each contract test of a step", default="10")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what needs a server after all else: most mistakes are found in seconds."""
    items.sort(key=lambda item: "urls" in getattr(item, "fixturenames", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """If an import stops tests from being collected, print what the contract tests can't say then."""
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        project = under_test.PROJECT
        for path in sorted((project.root / "steps").rglob("*.py")):
            for line in [*iter_undeclared(project, path), *find_gone_types(project, path)]:
                terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Read the facts of the project in pytest's root folder.

    Also copy the code that changed to the folders from which tests load it.
    """
    try:
        under_test.PROJECT = Project.load(config.rootpath)
        if not hasattr(config, "workerinput"):  # of pytest-xdist
            complete(under_test.PROJECT, makes_models=False)
        for name in ("causes", "fixtures"):
            config.pluginmanager.import_plugin(f"triton_ensemble.testing.{name}")
    except (ProjectError, RepositoryError, ValueError) as error:
        raise pytest.UsageError(str(error)) from error
    except OSError as error:
        raise pytest.UsageError(f"model_repository: can't be completed: {error}") from error
