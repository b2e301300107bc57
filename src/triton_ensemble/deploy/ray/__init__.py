"""The project on a Ray cluster: a Serve application of which each replica is a gateway and a Triton.

It needs Ray.
"""
