"""A model endpoint on TIR, the platform of E2E Networks, by its own SDK."""

from triton_ensemble.facts.terminal import OneLine


class EndpointError(OneLine, ValueError):
    """Raised if an endpoint can't be made.

    The line has the place, what is wrong and what to write instead.
    """
