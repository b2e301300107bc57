# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Contract tests of each Python step, without a server."""

from triton_ensemble.testing.contract import *  # noqa: F403
