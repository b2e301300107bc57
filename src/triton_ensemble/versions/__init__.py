"""Versions of a model beside each other: `publish`, `shift`, `rollback`, `unload`."""

from triton_ensemble.terminal import OneLine


class VersionError(OneLine, RuntimeError):
    """Raised where a version can't be published or served: where, what, what to write instead."""
