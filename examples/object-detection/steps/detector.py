# Yours: written once, never touched by `make update`.
"""The size of images that the detector takes, and the classes that it finds."""

WIDTH, HEIGHT = 608, 800  # of an image that it takes
# The classes, in the order in which it scores them.
LABELS = (
    "text",
    "title",
    "figure",
    "figure_caption",
    "table",
    "table_caption",
    "header",
    "footer",
    "reference",
    "equation",
)
