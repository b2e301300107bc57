"""What the check finds in configs whose model files, code and data are not beside them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

try:
    from triton_ensemble.check import Finding, check
except ImportError:  # until the new check is merged
    from oldcheck import Finding, check  # type: ignore
from triton_ensemble.pipeline.rules import Answers, rendered, Rules

# Rules on model files, code and what lies next to a config.
OF_FILES = {
    "execution-environment",
    "label-file",
    "model-file",
    "python-arguments",
    "python-class",
    "python-execute",
    "python-syntax",
}
# What other rules say where such a file is missing.
FILE_MISSING = {
    "backend": "Invalid model name: Could not determine backend",
    "sequence-state": "failed to open text file",
    "warmup-data": "failed to open text file",
}


def on_configs(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that would be the same with all files in their places."""
    return [
        finding
        for finding in findings
        if finding.rule not in OF_FILES
        and not finding.what.startswith(FILE_MISSING.get(finding.rule, "\n"))
    ]
