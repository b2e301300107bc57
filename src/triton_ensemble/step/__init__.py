"""Runs one Python step on a sample, in the foreground: `triton-ensemble step`."""

from triton_ensemble.facts.terminal import OneLine


class StepError(OneLine, RuntimeError):
    """Raised if a step can't be run, with one line for its owner."""
