"""Questions at a terminal, by questionary, with a key that goes back."""

from __future__ import annotations

import sys
from typing import Any

import questionary
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings

from triton_ensemble.facts.project import ProjectError

TENSORS = "A tensor is NAME TYPE[dims], without the batch: IMAGE UINT8[64,64,3]"
KEYS = "Esc goes back, Ctrl-C saves and stops."


class Back(Exception):
    """Raised to ask the question before once more."""


def ask(question: questionary.Question) -> Any:
    """Return the answer to a question. Raise Back at Esc, or KeyboardInterrupt at Ctrl-C."""
    keys = KeyBindings()

    @keys.add("escape", eager=True)
    def _(event: KeyPressEvent) -> None:
        event.app.exit(exception=Back())

    application = question.application
    application.key_bindings = merge_key_bindings([application.key_bindings or KeyBindings(), keys])
    return ask_question(question)


def ask_question(question: questionary.Question) -> Any:
    """Return the answer to a question with its own keys. Raise KeyboardInterrupt at Ctrl-C and Ctrl-D."""
    try:
        return question.unsafe_ask()
    except EOFError:
        raise KeyboardInterrupt from None


def check_terminal(instead: str) -> None:
    """Raise ProjectError, with what to do `instead`, if there is no terminal to ask questions at."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ProjectError(f"asks questions, and needs a terminal; {instead}")
