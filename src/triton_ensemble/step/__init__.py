"""Runs one Python step on a sample, in the foreground: `triton-ensemble step`."""


class StepError(RuntimeError):
    """Raised where a step can't be run: one line for its owner."""
