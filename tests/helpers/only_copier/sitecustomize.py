"""On PYTHONPATH, hides packages that the environment of `make update` lacks: it has those of template/vendor/copier.txt alone."""

from __future__ import annotations

import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

LOCK = Path(__file__).parents[3] / "template/vendor/copier.txt"
LOCKED = set(re.findall(r"^([\w.-]+)==", LOCK.read_text(), re.MULTILINE))
HIDDEN = {
    module
    for module, names in packages_distributions().items()
    if not LOCKED & {name.lower().replace("_", "-") for name in names}
    and not module.startswith("triton_")
}


class Hiding:
    """Refuses to import what is hidden, as if it were not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for a hidden module."""
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Hiding())
