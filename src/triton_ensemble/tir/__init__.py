"""A model endpoint on TIR, the platform of E2E Networks, by its own SDK."""

from triton_ensemble.terminal import OneLine


class EndpointError(OneLine, ValueError):
    """Raised where an endpoint can't be made: where, what, what to write instead."""
