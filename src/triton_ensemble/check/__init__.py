"""Whether Triton would serve a model repository, found out without a server."""
