"""PAGE, SEEN -> BOXES, WIDTHS, NARROW, WIDE: of each line; of an image without any, a line of zeros and no box."""

from math import ceil

import numpy as np

from steps import lines
from steps.read import LEAST_WIDTH


class Step:
    def __init__(self, context):
        pass

    def __call__(self, PAGE, SEEN):
        boxes = lines.find(SEEN[0, 0], PAGE)
        cuts = [lines.cut(PAGE, box) for box in boxes] or [np.zeros((48, 320, 3), np.uint8)]
        widest = max(LEAST_WIDTH, int(lines.HEIGHT * max(map(lines.ratio, cuts))))
        own = [min(widest, ceil(lines.HEIGHT * lines.ratio(cut))) for cut in cuts]
        return {
            "BOXES": np.array(boxes, np.float32).reshape(-1, 4, 2),
            "WIDTHS": np.array(own, np.int32),
            "NARROW": lines.pad(cuts, 192),
            "WIDE": lines.pad(cuts, widest),
        }
