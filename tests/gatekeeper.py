"""The template's checks without a copy, for tests that ask thousands of times."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from copier._main import Worker

DEFAULTS = {
    "project_name": "p",
    "ensemble_name": "p",
    "starting_pipeline": "my-own",
    "triton_release": "24.10",
    "gpu_count": 0,
    "max_queue_delay_us": 100,
    "inputs": [],
    "outputs": [],
    "ensemble": {},
}


class Gatekeeper:
    """The template's own checks, in Copier's environment."""

    def __init__(self, template: Path) -> None:
        self.template = template
        self.environment = environment = Worker(src_path=str(template)).jinja_env
        files = ("questions", "graph/graph", "validate/pipeline")
        self.of: dict[str, Any] = {
            name: environment.get_template(f"hooks/{name}.jinja").module for name in files
        }

    def graph(self, answers: dict[str, Any]) -> dict[str, Any]:
        """The one model of the pipeline that every template reads."""
        found: dict[str, Any] = json.loads(self.of["graph/graph"].graph(DEFAULTS | answers))
        return found

    def line(self, answers: dict[str, Any]) -> str:
        """Why the template refuses the answers; empty where it does not."""
        answers = DEFAULTS | answers
        empty = [name for name, value in answers.items() if value is None]
        wrong = str(self.of["questions"].answers_problem(answers, empty, list(answers)))
        if wrong:
            return wrong
        return str(
            self.of["validate/pipeline"].pipeline_problem(self.graph(answers), answers)
        ).strip()

    def configs(self, answers: dict[str, Any]) -> dict[str, str]:
        """The configs of answers whatever they are: what the template would write if it refused nothing."""
        graph = self.graph(answers)
        context = {**DEFAULTS, **answers, "graph": graph}
        found = {}
        for path in sorted(self.template.glob("template/model_repository/*/config.pbtxt.jinja")):
            loop = re.search(r"yield (\w+) from graph\.(\w+)", str(path))
            assert loop
            template = self.environment.get_template(str(path.relative_to(self.template)))
            for item in graph[loop[2]]:
                found[item["name"]] = template.render({**context, loop[1]: item})
        return found
