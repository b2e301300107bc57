"""The project on a Ray cluster: a Serve application whose replicas are a gateway and a Triton each; needs Ray."""
