"""The template's rules on answers without a copy, for tests that ask thousands of times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from triton_ensemble.check.pipeline.problems import list_problems
from triton_ensemble.compile.render import render_configs
from triton_ensemble.compile.rules import Rules

DEFAULTS = {
    "project_name": "p",
    "ensemble_name": "p",
    "starting_pipeline": "my-own",
    "triton_release": "24.10",
    "gpu_count": 0,
    "max_batch_size": 8,
    "max_queue_delay_us": 100,
}


class Gatekeeper:
    """The rules of a template, with answers that say as little as they may."""

    def __init__(self, template: Path) -> None:
        self.rules = Rules(template)

    def graph(self, answers: dict[str, Any]) -> dict[str, Any]:
        """Return the one model of the pipeline that every template reads."""
        graph: dict[str, Any] = self.rules.answer_unchecked(DEFAULTS | answers)["graph"]
        return graph

    def line(self, answers: dict[str, Any]) -> str:
        """Return the first line on what is wrong with answers, or nothing."""
        problems = list_problems(DEFAULTS | answers, self.rules)
        return next(map(self.rules.line, problems), "")

    def configs(self, answers: dict[str, Any]) -> dict[str, str]:
        """Return the configs of answers whatever they are: those of a template that refused nothing."""
        return render_configs(self.rules, self.rules.answer_unchecked(DEFAULTS | answers))
