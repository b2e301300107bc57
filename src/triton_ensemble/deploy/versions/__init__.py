"""Versions of a model beside each other: `publish`, `shift`, `rollback`, `unload`."""

from triton_ensemble.facts.terminal import OneLine


class VersionError(OneLine, RuntimeError):
    """Raised if a version can't be published or served.

    The line has the place, what is wrong and what to write instead.
    """
