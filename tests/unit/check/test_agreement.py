"""One rule, once: what the answers accept the check finds no error in, and the other way round, for every field of the grammar."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from drawing import SEED
from gatekeeper import DEFAULTS
from grammar import FIELDS, OF_FIELD, OF_KIND, Tried, has_config, some_answers
from pipelines import Answers

from triton_ensemble.check.finding import Finding
from triton_ensemble.check.pipeline.findings import findings_in, write_repository
from triton_ensemble.check.pipeline.problems import list_problems
from triton_ensemble.compile.render import render_configs
from triton_ensemble.compile.rules import Mistake, Rules

ALL = {(kind, field) for kind, fields in FIELDS.items() for field in fields}
MANY = 1500
# More, and others: AGREEMENTS=5000 SEED=7 python -m pytest -m slow tests/unit/check/test_agreement.py
AGREEMENTS = int(os.environ.get("AGREEMENTS", MANY if os.environ.get("ALL") else 400))

# What the answers refuse and the check does not even warn of, by rule, with the reason.
IN_CODE = "what a step calls is in its code, not in its config"
OF_ENGINE = "what an engine is built for is in no config"
OF_OUTPUT = "no config says that a step may leave out an output"
STRICTER = {
    "unfused": "the configs would be right, and without what was asked for",
    "not-one-model": "the configs would have the ensemble that was not wanted",
    "batching-no-rows": "Triton warns of it, and of a sequence it is dropped",
    "batching-sequence": "a config has one of them, so that one would be dropped",
    **dict.fromkeys(("calls-backend", "calls-cycle", "calls-unknown"), IN_CODE),
    "labels-folder": "projects keep those of models that are not adopted in one folder",
    "config-answer": "other rules know what it says by its answer",
    "config-written": "of two values Triton takes the last if the first is 0",
    "warmup-unknown": "the config is written without it",
    "gpus-of-groups": "the list is in the config, and the field would be dropped",
    "example-rows": "it is about the example's code",
    "rows-kept": "a model that is not generated may write other rows than it reads",
    "tensor-unused": "it is in no config",
    "auto-file": "the config is right for a model file that is put beside it",
    "file-generated": "the config is right, and the project would not have the file",
    **dict.fromkeys(("trtexec-backend", "trtexec-dims", "trtexec-file", "trtexec-open"), OF_ENGINE),
    **dict.fromkeys(("trtexec-order", "trtexec-unknown"), OF_ENGINE),
    **dict.fromkeys(("exposed-optional", "optional-output", "outputs-optional"), OF_OUTPUT),
    "stage-gpu": "the configs compared are those without a stage",
    "reads-below": "an ensemble may list its steps in any order",
}
# Answers with `config` are passed over. It is text that only Triton reads: the answers know which fields it has,
# and not what is in them. `triton-ensemble check pipeline.yml`, `make check` and `make test` read all of it.


@dataclass
class Verdicts:
    """The problems that the answers' rules and the check find."""

    answers: Answers
    refusal: Mistake | None  # the first
    findings: list[Finding]
    graph: Answers

    @property
    def errors(self) -> list[Finding]:
        """Return what the check would refuse."""
        return [finding for finding in self.findings if finding.severity == "error"]

    def disagreement(self) -> str:
        """Return what they disagree in, or an empty text if they agree or the reason is listed."""
        if not self.refusal:
            errors = [] if has_config(self.answers) else self.errors
            return "".join(f"accepted, but {f.rule}: {f.what}\n" for f in errors)
        if self.findings or self.refusal.rule in STRICTER or self.is_of_no_config(self.refusal):
            return ""
        return f"the check finds nothing, but refused: {self.refusal}\n"

    def is_of_no_config(self, refusal: Mistake) -> bool:
        """Return whether the refused step has no config of its own, as it is fused, or another leaves an output out."""
        fused = [step["name"] for model in self.graph["shared_models"] for step in model["steps"]]
        left_out = refusal.args.get("who", "").startswith("step ")
        return left_out or any(name in fused for name in refusal.where[1:4:2])


def verdicts(rules: Rules, given: Answers) -> Verdicts | None:
    """Ask both. Return none where the values are of the wrong kind, so that nothing can be generated."""
    given = DEFAULTS | given
    if rules.problems_of_form(given):
        return None
    answered = rules.answer_unchecked(given)
    refusal = next(list_problems(given, rules), None)
    with TemporaryDirectory() as folder:
        configs = render_configs(rules, answered)
        findings = findings_in(write_repository(Path(folder), answered, configs))
    return Verdicts(given, refusal, findings, answered["graph"])


def agree(count: int) -> Tried:
    """Check that they agree on so many pipelines. Return the fields of those that both accept."""
    rules, wrong, tried = Rules(), list[str](), Tried()
    for given, fields in some_answers(count, SEED):
        asked = verdicts(rules, given)
        if asked and (words := asked.disagreement()):
            wrong.append(
                f"{words}---\n{yaml.safe_dump(given, sort_keys=False, allow_unicode=True)}"
            )
        elif asked and not asked.refusal:
            tried |= fields
    heads = "".join(text.partition("---")[0] for text in wrong)
    shortest = min(wrong, key=len, default="")
    assert not wrong, f"{len(wrong)} of {count}, SEED {SEED}:\n{heads}\nthe shortest:\n{shortest}"
    return tried


def test_each_field_has_values_to_try() -> None:
    known = OF_KIND.keys() | {f"list of {kind}" for kind in OF_KIND}
    lacking = {f for f in ALL if f not in OF_FIELD and FIELDS[f[0]][f[1]] not in known}
    assert lacking == set(), "add values of their kinds to tests/helpers/grammar.py"
    assert OF_FIELD.keys() <= ALL


@pytest.mark.slow
def test_the_answers_and_the_check_agree() -> None:
    """They accept many fields, too."""
    # Of 1,500 answers, by seed, 115 to 122 of 134 fields: what an ensemble overrides is mostly refused. Of 400, 82 of 166.
    assert len(agree(AGREEMENTS)) > (0.8 if AGREEMENTS >= MANY else 0.45) * len(ALL)
