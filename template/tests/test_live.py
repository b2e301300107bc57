# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Smoke tests of the served ensemble, over each protocol."""

from triton_ensemble.testing.live import *  # noqa: F403
