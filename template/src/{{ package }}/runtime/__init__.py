# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The part of the client that is the same in each project; the pipeline's own names and types are in `..tensors` and `..client`."""
