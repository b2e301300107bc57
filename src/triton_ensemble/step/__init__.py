"""Runs one Python step on a sample, in the foreground: `triton-ensemble step`."""

from triton_ensemble.terminal import OneLine


class StepError(OneLine, RuntimeError):
    """Raised where a step can't be run: one line for its owner."""
