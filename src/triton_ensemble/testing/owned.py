"""Names of the toolkit that files of owners import, beside `triton_step` and two names of `triton_ensemble.gateway`.

These names stay within a MAJOR version, so that an update leaves such a file as it is. Their other import is `from
triton_ensemble.testing.reference import *`, which brings tests.
"""

from triton_ensemble.facts.client import package
from triton_ensemble.facts.project import Project
from triton_ensemble.testing.compare import differences
from triton_ensemble.testing.files import Sample, samples
from triton_ensemble.testing.printing import table
from triton_ensemble.testing.steps import blank_calls, first_response

__all__ = [
    "Project",
    "Sample",
    "blank_calls",
    "differences",
    "first_response",
    "package",
    "samples",
    "table",
]
