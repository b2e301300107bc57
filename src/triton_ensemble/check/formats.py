"""How findings are printed: for people, for annotations of a pull request on GitHub, for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from triton_ensemble.check.finding import Finding
from triton_ensemble.facts.terminal import escape_line


def format_text(findings: Iterable[Finding]) -> str:
    """Return a line for each finding.

    The line is `file:line: severity: rule: what; what to do`.
    """
    return "\n".join(
        escape_line(f"{f.shown_file}:{f.line}: {f.severity}: {f.rule}: {f.words}") for f in findings
    )


def format_github(findings: Iterable[Finding]) -> str:
    """Return a workflow command for each finding, which GitHub shows as an annotation."""
    return "\n".join(
        f"::{f.severity} file={_escape(str(f.shown_file), ',:')},line={f.line},title={_escape(f.rule, ',:')}"
        f"::{_escape(f.words)}"
        for f in findings
    )


def _escape(value: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        value = value.replace(character, f"%{ord(character):02X}")
    return value


def format_json(findings: Iterable[Finding]) -> str:
    """Return a JSON list with an object for each finding."""
    return json.dumps([_object(finding) for finding in findings], indent=1)


def _object(finding: Finding) -> dict[str, str | int]:
    return {
        "file": str(finding.shown_file),
        "line": finding.line,
        "rule": finding.rule,
        "severity": finding.severity,
        "what": finding.what,
        "instead": finding.instead,
    }


FORMATS: dict[str, Callable[[Iterable[Finding]], str]] = {
    "text": format_text,
    "github": format_github,
    "json": format_json,
}
