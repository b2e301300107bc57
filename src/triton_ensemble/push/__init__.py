"""Uploads the model repository to a bucket: `triton-ensemble push`."""


class PushError(RuntimeError):
    """Raised where the repository can't be pushed: a line for each reason, each with what to do."""
