"""Examples of the documentation that are parts of a pipeline, and the texts that questions offer."""

from __future__ import annotations

import yaml
from docs_blocks import read_blocks
from support import ROOT

from triton_ensemble.compile.rules import rules
from triton_ensemble.facts import catalog


def test_the_engines_of_text_to_image_are_accepted() -> None:
    folder = ROOT / "examples/text-to-image"
    answers = yaml.safe_load((folder / "pipeline.yml").read_text())
    [engine] = read_blocks((folder / "README.md").read_text(), "yaml")
    for step in answers["steps"]:
        if step["name"] in ("denoiser", "vae"):
            step.update(yaml.safe_load(engine))
    assert rules().problem({**answers, "gpu_count": 1}) == ""


def test_the_texts_of_my_own_are_those_of_the_question() -> None:
    started = catalog.table("prompts")["start"]
    shown = read_blocks((ROOT / "examples/my-own/README.md").read_text(), "text")
    assert shown == [started[topology] for topology in ("chain", "shared", "fan")]


def test_a_misspelled_tensor_has_the_message_of_the_questions() -> None:
    page = (ROOT / "docs/questions.md").read_text()
    [answers], [line] = read_blocks(page, "yaml"), read_blocks(page, "text")
    wrong = answers.replace("[SCORES, ITEMS]", "[SCORE, ITEMS]")
    assert rules().problem(yaml.safe_load(wrong)) == line.strip()
