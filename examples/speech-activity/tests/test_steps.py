# Yours: written once, never touched by `make update`.
"""The Python step alone, without a server."""

from itertools import count

import numpy as np
import pytest

from steps import mark
from steps.mark import Step
from triton_step import Context, SequencePosition

Events = dict[int, tuple[str, int]]


def follow(step: Step, probabilities: list[float], stream: int = 1, end: bool = True) -> Events:
    """Return the events of a stream by the chunk in which they come."""
    events = {}
    for i, probability in enumerate(probabilities):
        position = SequencePosition(stream, i == 0, end and i == len(probabilities) - 1)
        answer = step(position, SPEECH=np.array([[probability]], np.float32))
        assert answer["PROBABILITY"].item() == np.float32(probability)
        if event := answer["EVENT"].item().decode():
            events[i] = (event, answer["AT"].item())
        else:
            assert answer["AT"].item() == -1
    return events


@pytest.mark.parametrize(
    ("probabilities", "events"),
    [
        ([0.0] * 9, {}),
        ([0.0, 0.0, 0.5, 0.9] + [0.0] * 9, {2: ("start", 544), 8: ("end", 2528)}),
        # Speech from the first sample on, and a pause that is too short to end it.
        ([0.9, 0.0, 0.0, 0.0, 0.9, *[0.0] * 9], {0: ("start", 0), 9: ("end", 3040)}),
        # What is between the limits is neither speech nor silence.
        ([0.45, 0.9, *[0.4] * 9], {1: ("start", 32), 10: ("end", 5632)}),
        # Two utterances.
        (
            [0.9, *[0.0] * 9, 0.9, *[0.0] * 5],
            {0: ("start", 0), 5: ("end", 992), 10: ("start", 4640), 15: ("end", 6112)},
        ),
        # A stream that ends while somebody speaks, and one whose last chunk is the first with speech.
        ([0.9, 0.9], {0: ("start", 0), 1: ("end", 1024)}),
        ([0.0, 0.9], {1: ("start", 32)}),
    ],
)
def test_events_are_where_speech_starts_and_ends(
    probabilities: list[float], events: Events
) -> None:
    assert follow(Step(Context()), probabilities) == events


def test_streams_are_apart() -> None:
    step = Step(Context())
    assert follow(step, [0.0, 0.9], stream=1, end=False) == {1: ("start", 32)}
    assert follow(step, [0.0, 0.0, 0.9], stream=2, end=False) == {2: ("start", 544)}
    assert follow(step, [0.9], stream=1) == {0: ("start", 0)}
    assert [*step.streams] == [2]


def test_a_stream_that_breaks_off_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count(0, 40)
    monkeypatch.setattr(mark.time, "monotonic", lambda: next(seconds))
    step = Step(Context())
    for stream in range(9):
        follow(step, [0.0], stream=stream, end=False)
    assert len(step.streams) < 3
