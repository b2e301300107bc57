# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Fixtures of the container under test."""

from triton_ensemble.testing.docker_fixtures import *  # noqa: F403
