"""What the models said of each line -> LINES INT32[1], TEXT STRING[lines], BOX FP32[lines, 4, 2], SCORE FP32[lines]."""

from steps import lines
from steps.read import LEAST_SCORE, Line, join, tabulate


class Step:
    def __init__(self, context):
        pass

    def __call__(self, CHARACTERS, SCORES, BOXES, PAGE, SIZE, TOP):
        places = lines.Page(PAGE, tuple(SIZE), TOP[0]).original(BOXES)
        texts, scores = zip(*map(join, CHARACTERS, SCORES), strict=True)
        read = map(Line, texts, places, scores)  # an image without lines has no place
        table = tabulate([[line for line in read if line.score >= LEAST_SCORE]])
        return {name: array[0] for name, array in table.items()}
