"""On PYTHONPATH, hides packages that the environment of `make update` lacks: the modules that HIDDEN lists."""

from __future__ import annotations

import os
import sys

HIDDEN = {*os.environ["HIDDEN"].split()}


class Hiding:
    """Refuses to import what is hidden, as if it were not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for a hidden module."""
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Hiding())
