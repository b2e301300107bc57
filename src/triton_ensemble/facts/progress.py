"""A progress display on stderr, drawn by tqdm: the extra `progress`."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any

from triton_ensemble.facts.terminal import escape_line, find_stream

TICK_S = 0.5  # nothing is shown of what takes less


class Progress:
    """Show the current work and its duration while a `with` block lasts.

    with Progress("Starting a local Triton"):
        wait()

    With `seconds`, the expected duration, a bar fills. Without tqdm, or if stderr is not a terminal, nothing is shown.
    """

    def __init__(self, text: str, seconds: float | None = None) -> None:
        self._text, self._seconds = text, seconds
        self._display: Any = None
        self._ended = threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            with contextlib.suppress(ImportError):
                self._display = _display(self._text, self._seconds)
                self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._display is not None:
            self._ended.set()
            self._clock.join()
            self._display.clear()
            self._display.close()

    def show(self, text: str) -> None:
        """Change the text of the display."""
        if self._display is not None:
            self._display.set_description_str(escape_line(text), refresh=False)

    def print(self, line: str) -> None:
        """Print a line on stdout, above the display."""
        if self._display is None:
            print(line, flush=True)
        else:
            self._display.write(line)

    def _tick(self) -> None:
        start = time.monotonic()
        while not self._ended.wait(TICK_S):
            self._display.n = min(time.monotonic() - start, self._seconds or 0)
            self._display.refresh()


def _display(text: str, seconds: float | None) -> Any:
    """Return a tqdm display that is first drawn when it is refreshed."""
    from tqdm import tqdm  # type: ignore[import-not-found, import-untyped, unused-ignore]

    bar = "{desc} |{bar:30}| {elapsed}" if seconds else "{desc} {elapsed}"
    stream = find_stream(sys.stderr)
    options: dict[str, Any] = {"bar_format": bar, "delay": TICK_S, "leave": False}
    return tqdm(desc=escape_line(text), total=seconds, file=stream, **options)
