"""The layer between Triton's Python backend and a step.

`make repository` copies it beside each step as `triton_adapter`.
"""
