"""The code of a step as a test writes it into a project."""

from __future__ import annotations

from textwrap import indent


def step_code(methods: str, *imports: str, init: str = "pass") -> str:
    """Return the code of a step with these methods, which are not indented, and a line for its `__init__`."""
    head = f"class Step:\n    def __init__(self, context):\n        {init}\n"
    return "\n".join([*imports, "", "", head, indent(methods.strip("\n"), "    "), ""])
