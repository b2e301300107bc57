"""What stands between Triton's Python backend and a step: `make repository` copies it beside each as `triton_adapter`."""
