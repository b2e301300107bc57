"""The toolkit of triton-ensemble-template: what is the same in every generated project."""

LAUNCHED = "TRITON_ENSEMBLE_LAUNCHED"  # in the environment of a command that the wheel has started
__version__ = "2.0.0.dev0"
