# Yours: written once, never touched by `make update`.
"""What the detector takes and finds; another one has others."""

WIDTH, HEIGHT = 640, 640  # of an image that it takes
# The classes, in the order in which it scores them.
LABELS = ("face",)
