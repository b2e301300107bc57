"""Completes a project's model repository: `triton-ensemble repository`."""


class RepositoryError(RuntimeError):
    """Raised where the model repository can't be completed: a line for each reason."""
