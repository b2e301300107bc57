# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Fixtures: `triton`, `urls`, `client` and `count`; `triton_ensemble.testing.fixtures` has them."""

pytest_plugins = ["triton_ensemble.testing.plugin"]
