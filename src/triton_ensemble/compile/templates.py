"""The template's Jinja: `hooks/*.jinja` and what `template/` has, rendered as Copier renders them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from triton_ensemble.facts.catalog import LOADER, template_root
from triton_ensemble.facts.project import ProjectError

if TYPE_CHECKING:
    from jinja2 import Template

    from triton_ensemble.compile.environment import TeamEnvironment, TrustedEnvironment


class RulesError(ProjectError):
    """Raised if the template's rules can't be rendered, with what is missing and how to get it."""


class Templates:
    """The templates of one version of the template, by default this package's own.

    `vendor` has what the team of a fork says, if the fork has a team.
    """

    def __init__(self, root: Path | None = None, vendor: Path | None = None) -> None:
        self.root, self.vendor = root or template_root(), vendor
        self._folders = [self.root, vendor] if vendor else [self.root]

    def macro(self, file: str, name: str) -> Any:
        """Return a macro or a table that `hooks/FILE.jinja` defines."""
        environment = self._environment
        from jinja2 import TemplateError

        try:
            return getattr(environment.get_template(f"hooks/{file}.jinja").module, name)
        except TemplateError as error:  # of the only text that is not the package's own
            raise RulesError(f"vendor/team/team.yml: {error}; correct it") from error

    def template(self, name: str) -> Template:
        """Return a file of the template, to be rendered."""
        return self._environment.get_template(name)

    def render(self, source: str, context: Mapping[str, Any]) -> str:
        """Return what a text of template language makes of variables."""
        return self._compile_default(source).render(context)

    def evaluate(self, expression: str, context: Mapping[str, Any]) -> Any:
        """Return the value of an expression of template language."""
        return self._environment.compile_expression(expression)(**context)

    @cached_property
    def copier(self) -> dict[str, Any]:
        """The content of copier.yml."""
        path = self.root / "copier.yml"
        try:
            content: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), LOADER)
        except OSError as error:
            raise RulesError(f"{path}: {error.strerror}; install the package again") from error
        return content

    @cached_property
    def _environment(self) -> TrustedEnvironment | TeamEnvironment:
        """Jinja as Copier sets it up for this template. The texts of a team are not the package's own, so they get a sandbox."""
        try:
            from jinja2 import FileSystemLoader, StrictUndefined

            from triton_ensemble.compile.environment import (
                CompiledTemplates,
                TeamEnvironment,
                TrustedEnvironment,
            )

            is_ours = self.root == template_root() and len(self._folders) == 1
            return (TrustedEnvironment if is_ours else TeamEnvironment)(
                loader=FileSystemLoader(self._folders),
                extensions=["jinja2_ansible_filters.AnsibleCoreFiltersExtension"],
                **{**self.copier["_envops"], "undefined": StrictUndefined},
                keep_trailing_newline=True,
                auto_reload=False,
                bytecode_cache=CompiledTemplates() if is_ours else None,
            )
        except ModuleNotFoundError as error:
            what = f"{error.name} is missing, which the rules on pipeline.yml need"
            raise RulesError(f"{what}; run: pip install 'triton-ensemble[answers]'") from error

    @cached_property
    def _sources(self) -> dict[str, Template]:
        return {}

    def _compile_default(self, source: str) -> Template:
        """Compile a question's default, once."""
        if source not in self._sources:
            self._sources[source] = self._environment.from_string(source)
        return self._sources[source]
