"""A conversation about a pipeline: step by step, drawn as it grows, with a way back."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import questionary

from triton_ensemble.author.draft import Draft, accept_answers
from triton_ensemble.author.drawing import draw_steps
from triton_ensemble.author.prompt import Back, ask, ask_question
from triton_ensemble.author.step_questions import (
    Said,
    add_described_step,
    check_files,
    questions,
)
from triton_ensemble.facts.project import ProjectError

MAKE, CHANGE, MORE = "Yes: make the project", "Change the text", "Add a step"


def ask_step(draft: Draft, before: Said) -> Said:
    """Ask about one step, and return what is said of it, with an empty name if there is none.

    `before` is what was said of it already. Its last question is asked again. Raises Back at the first.
    """
    typed, said = dict(before), dict([*before.items()][:-1])
    while question := next((each for each in questions(draft, said) if each.key not in said), None):
        try:
            answer = ask(question.show(typed.get(question.key)))
            typed[question.key] = answer
            question.check(answer)
            said[question.key] = answer
        except Back:
            if not said:
                raise
            said.popitem()
        except (ProjectError, ValueError) as refused:
            print(f"  {refused}")
    return said


def ask_pipeline(draft: Draft, keep: Callable[[Draft], None]) -> Draft:
    """Ask about steps until the user is done, and call `keep` with the pipeline after each change."""
    show(draft)
    history: list[tuple[Draft, Said]] = []
    said: Said = {}
    while True:
        try:
            said = ask_step(draft, said)
        except Back:
            draft, said = history.pop() if history else (draft.drop_last_step(), {})
        else:
            if not said["name"]:
                return draft
            history.append((draft, said))
            draft, said = add_described_step(draft, said), {}
            show(draft)
        keep(draft)


def show(draft: Draft) -> None:
    """Print the pipeline, each line no longer than the terminal's, if there is one yet."""
    width = shutil.get_terminal_size().columns
    for line in draw_steps(draft.steps).splitlines() if draft.steps else []:
        print(f"  {line}"[: width - 1])


def edit_draft(draft: Draft) -> Draft:
    """Let the text of the pipeline be changed, until the template takes it."""
    text = draft.text
    while True:
        question = questionary.text(
            "The pipeline; Esc and Enter end it.", text, multiline=True, instruction=" "
        )
        text = ask_question(question)
        try:
            changed = draft.replace_text(text)
            check_files(changed)
            return changed
        except ProjectError as refused:
            print(f"  {refused}")


def review_pipeline(draft: Draft, keep: Callable[[Draft], None]) -> Draft:
    """Ask about steps, then show the pipeline as text until it is taken as it is."""
    draft = ask_pipeline(draft, keep)
    while True:
        print(f"\n{draft.text}\n")
        try:
            chosen = ask(questionary.select("Is this the pipeline?", [MAKE, CHANGE, MORE]))
        except Back:
            chosen = MORE
        if chosen == MAKE and _is_whole(draft):
            return draft
        draft = ask_pipeline(draft, keep) if chosen == MORE else edit_draft(draft)
        keep(draft)


def _is_whole(draft: Draft) -> bool:
    """Return whether the template accepts the pipeline as it is, and print why not."""
    try:
        accept_answers(draft.answers, whole=True)
    except ProjectError as refused:
        print(f"  {refused}")
        return False
    return True
