# Yours: written once, never touched by `make update`.
"""Blur the faces of a video, or of a camera, by a server that runs:

    PYTHONPATH=src .venv/bin/python samples/follow.py VIDEO [blurred.mp4 [numbers.png]]

VIDEO is a file that OpenCV reads, or the number of a camera, such as 0. The others are written: the video without
sound, its faces blurred, and up to 12 of its frames with a numbered box around each face. TRITON_URL names the server.
"""

import os
import random
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from video_tracking import Client, InferenceError

COLUMNS, MOST, WIDTH = 4, 12, 480  # of the picture: frames in a row and in all, pixels of each
COLOURS = ((60, 60, 230), (60, 180, 60), (230, 120, 40), (30, 180, 230), (200, 60, 200))


def follow(client: Client, ahead: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each frame of a sequence and its answer.

    A frame is sent when the next one is there, because the last one ends the sequence.
    """
    sequence, start = random.randrange(1, 2**63), True
    frame = next(ahead, None)
    while frame is not None:
        following = next(ahead, None)
        data = cv2.imencode(".jpg", frame, [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes()
        end = following is None
        yield frame, client.video_tracking([[data]], sequence=sequence, start=start, end=end)
        start, frame = False, following


def draw(frame: Any, answer: Any) -> Any:
    """Return a frame of WIDTH with numbered boxes, thin ones around faces that the detector missed."""
    scale = WIDTH / frame.shape[1]
    drawn = cv2.resize(frame, (WIDTH, round(frame.shape[0] * scale)), interpolation=cv2.INTER_AREA)
    for box, number, score in zip(answer.BOX[0], answer.NUMBER[0], answer.SCORE[0], strict=True):
        left, top, right, bottom = (box * scale).round().astype(int).tolist()
        colour, place = COLOURS[number % len(COLOURS)], (left, max(top - 6, 20))
        cv2.rectangle(drawn, (left, top), (right, bottom), colour, 3 if score else 1)
        cv2.putText(drawn, str(number), place, cv2.FONT_HERSHEY_SIMPLEX, 0.8, colour, 2)
    return drawn


def main(name: str, blurred: str = "blurred.mp4", picture: str = "numbers.png") -> None:
    for path, suffix in ((blurred, ".mp4"), (picture, ".png")):
        if Path(path).suffix != suffix or not Path(path).absolute().parent.is_dir():
            raise ValueError(f"{path}: name a {suffix} in a folder that exists")
    video = cv2.VideoCapture(int(name) if name.isdigit() else name)
    kind = cv2.VideoWriter.fourcc(*"mp4v"), video.get(cv2.CAP_PROP_FPS) or 25
    file, drawn, numbers, count, every = None, list[Any](), set[int](), 0, 1
    client = Client(os.environ.get("TRITON_URL", "http://127.0.0.1:8000"))
    with client, suppress(KeyboardInterrupt):  # which ends a camera
        for frame, answer in follow(client, (read[1] for read in iter(video.read, (False, None)))):
            file = file or cv2.VideoWriter(blurred, *kind, frame.shape[1::-1])
            data = np.frombuffer(answer.BLURRED.item(), np.uint8)
            file.write(cv2.imdecode(data, cv2.IMREAD_COLOR))
            if count % every == 0:
                drawn.append(draw(frame, answer))
            if len(drawn) > MOST:
                drawn, every = drawn[::2], 2 * every
            numbers.update(answer.NUMBER[0].tolist())
            count += 1
    if file is None:
        raise ValueError(f"{name}: is not a video that OpenCV can read")
    file.release()
    drawn += [np.full_like(drawn[0], 255)] * (-len(drawn) % COLUMNS)
    rows = [np.hstack(drawn[i : i + COLUMNS]) for i in range(0, len(drawn), COLUMNS)]
    cv2.imwrite(picture, np.vstack(rows))
    print(f"{count} frames, {len(numbers)} faces: {blurred}, {picture}")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        raise SystemExit(__doc__)
    try:
        cv2.setLogLevel(0)  # the errors below say it in a line
        main(*sys.argv[1:])
    except (InferenceError, OSError, ValueError, cv2.error) as error:
        raise SystemExit(f"follow.py: {error}") from None
