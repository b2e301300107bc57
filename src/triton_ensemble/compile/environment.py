"""Jinja for the package's own template: what Copier's sandbox gives for it, in a fraction of the time."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import yaml
from jinja2 import Environment, FileSystemBytecodeCache
from jinja2.bccache import Bucket
from jinja2.sandbox import SandboxedEnvironment, safe_range

from triton_ensemble.facts.catalog import LOADER


class TrustedEnvironment(Environment):
    """Copier's environment without its sandbox, which checks each attribute and each call.

    Names may come from answers, so a name that begins with an underscore is not an attribute here either.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.globals["range"] = safe_range
        self.filters["from_yaml"] = read_yaml

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an item of an object, or an attribute of that name."""
        try:
            return obj[argument]
        except (TypeError, LookupError):
            if isinstance(argument, str) and not argument.startswith("_"):
                return getattr(obj, argument, self.undefined(obj=obj, name=argument))
        return self.undefined(obj=obj, name=argument)


def read_yaml(text: str) -> Any:
    """Return the value of a YAML text, as the filter of Copier does, by libyaml if it is installed."""
    return yaml.load(text, LOADER)


class TeamEnvironment(SandboxedEnvironment):
    """Copier's environment with its sandbox, in which a text of a team can neither import nor call what it may not."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.filters["from_yaml"] = read_yaml


class CompiledTemplates(FileSystemBytecodeCache):
    """Compiled templates beside Python's compiled modules: compiling takes three quarters of the time of `apply`.

    As with modules, a folder that can't be written has none, and PYTHONDONTWRITEBYTECODE adds none.
    """

    def __init__(self) -> None:
        super().__init__(
            str(Path(__file__).parent / "__pycache__"), f"jinja-{version('jinja2')}-%s"
        )

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a compiled template if there is a whole one."""
        with suppress(OSError, EOFError, UnpicklingError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a compiled template if that is possible."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)
