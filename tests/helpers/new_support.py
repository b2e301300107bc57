"""Shared by tests: `triton-ensemble new` and `add-step`, told at a real terminal, and the projects that they make."""

from __future__ import annotations

from terminal import DOWN, ENTER, Terminal

PYTHON, FILE, ONNX = ENTER, DOWN + ENTER, DOWN * 2 + ENTER
NAME, RUNS, READS, BRINGS = "its name?", "What runs it?", "What does it read?", "read of a request?"
WRITES, PATH, IS_IT = "What does it write?", "Where is it?", "Is this the pipeline?"
COPIERS = [
    "What is the project's name",
    "What should batching",
    "How many GPUs",
    "What else",
    "Show all",
]


def made(terminal: Terminal) -> None:
    """Take the pipeline as it is, and Copier's questions."""
    terminal.answer(IS_IT)
    for question in [*COPIERS[:4]]:
        terminal.answer(question)
    terminal.ends("p")
