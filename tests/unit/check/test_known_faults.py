"""Known faults of releases: the check and the last message of a copy name the worst for each need of a project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from triton_ensemble.check.examples import write
from triton_ensemble.check.rules.deployment import PROJECT
from triton_ensemble.check.rules.engine import check
from triton_ensemble.compile.rules import rules
from triton_ensemble.facts import catalog
from triton_ensemble.facts.answers import FILE

TABLE = catalog.table("faults")
CALLS = {"calls": ["n"]}
PYTHON = {"backend": "python"}
LIMITED = {"batching": {"default_queue_policy": {"max_queue_size": 3}}}
ORDERED = {"batching": {"preserve_ordering": True}}
TIMED = {"batching": {"default_queue_policy": {"default_timeout_us": 9}}}


@pytest.mark.parametrize(
    ("release", "step", "threads"),
    [
        ("25.06", {}, ["CVE-2025-23319"]),
        ("25.07", {}, ["common#156"]),
        ("26.04", {}, ["common#156"]),
        ("26.05", {}, ["server v2.75.0"]),
        ("26.06", {}, ["server#8925"]),
        ("26.08", {}, ["server#8925"]),
        ("26.11", {**CALLS, **PYTHON, **LIMITED, **TIMED}, []),
        ("26.11", {}, []),
        ("26.10", TIMED, ["server v2.75.0"]),
        ("26.06", ORDERED, ["core#520", "server#8925"]),
        ("26.05", {"calls": [], "note": '"calls": ["n"]'}, ["server v2.75.0"]),
        ("26.05", CALLS, ["server v2.75.0", "server#8882"]),
        (
            "26.05",
            {"backend": "ensemble", "steps": [{"name": "s", **CALLS}]},
            ["server v2.75.0", "server#8882"],
        ),
        ("26.06", CALLS, ["python_backend#439", "server#8925"]),
        ("25.01", CALLS, ["CVE-2025-23319", "python_backend#439"]),
        ("26.03", PYTHON, ["common#156", "core#473"]),
        ("26.01", LIMITED, ["common#156", "core#466"]),
        ("26.07", TIMED, ["core#509", "server#8925"]),
    ],
)
def test_the_faults_that_a_project_would_meet_are_named(
    tmp_path: Path, release: str, step: dict[str, Any], threads: list[str]
) -> None:
    steps = [{"name": "other"}, {"name": "m", **step}]
    text = yaml.safe_dump({"steps": steps, "triton_release": release})
    findings = check(write({**PROJECT, FILE: text, "pipeline.yml": text}, tmp_path))
    assert sorted(each.what.rpartition("(")[2][:-1] for each in findings) == threads
    lines = {f"pipeline.yml:{len(text.splitlines())}" for _ in threads}
    assert {f"{each.file.name}:{each.line}" for each in findings} == lines
    said = rules().templates.macro("messages/faults", "faults")(steps, release).replace("\n", " ")
    assert said.count("Triton ") == len(findings)
    for each in findings:
        assert f"{each.what[:1].upper()}{each.what[1:]}: {each.instead} into" in said


def test_a_fault_has_its_need_and_its_releases() -> None:
    known = catalog.releases()
    for row in TABLE["faults"]:
        assert row.get("needs", "calls") in TABLE["needs"]
        assert min(known) < row["before"] <= max(known)
        assert row.get("since", "") < row["before"]
