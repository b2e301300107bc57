"""Model repositories in buckets: addresses as Triton writes them, and whether one can be read."""
