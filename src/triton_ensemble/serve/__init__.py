"""Completes a project's model repository: `triton-ensemble repository`."""


class RepositoryError(RuntimeError):
    """Raised if the model repository can't be completed, with a line for each reason."""
