"""The toolkit of triton-ensemble-template: what is the same in every generated project."""

__version__ = "1.0.0"
