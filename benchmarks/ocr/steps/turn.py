"""WIDE, WIDTHS, ANGLES -> UPRIGHT: lines that are upside down, turned."""


class Step:
    def __init__(self, context):
        pass

    def __call__(self, WIDE, WIDTHS, ANGLES):
        upright = WIDE.copy()
        for row, width, turned in zip(upright, WIDTHS, ANGLES[:, 1] > 0.9, strict=True):
            if turned:
                row[:, :, :width] = row[:, ::-1, width - 1 :: -1].copy()
        return {"UPRIGHT": upright}
