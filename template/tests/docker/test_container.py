# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Tests of the container, for `make test-docker`."""

from triton_ensemble.testing.docker_fixtures import *  # noqa: F403
from triton_ensemble.testing.docker_tests import *  # noqa: F403
