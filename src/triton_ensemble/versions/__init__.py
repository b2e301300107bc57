"""Versions of a model beside each other: `publish`, `shift`, `rollback`, `unload`."""


class VersionError(RuntimeError):
    """Raised where a version can't be published or served: where, what, what to write instead."""
