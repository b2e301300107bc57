"""How findings are printed: for people, for annotations of a pull request on GitHub, for programs and services."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from triton_ensemble import __version__
from triton_ensemble.check.finding import Finding
from triton_ensemble.facts.terminal import escape_line

PAGE = "https://github.com/org/triton-ensemble-template/blob/main/docs/check.md"
SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


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


def format_sarif(findings: Iterable[Finding]) -> str:
    """Return a log in SARIF 2.1.0, which GitHub and GitLab read as results of code scanning."""
    results = [_make_result(finding) for finding in findings]
    ids = dict.fromkeys(result["ruleId"] for result in results)
    rules = [{"id": each, "helpUri": f"{PAGE}#{each}"} for each in ids]
    driver = {"name": "triton-ensemble", "version": __version__, "rules": rules}
    runs = [{"tool": {"driver": driver}, "results": results}]
    return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": runs}, indent=1)


def _make_result(finding: Finding) -> dict[str, Any]:
    path = finding.shown_file
    place = {
        "artifactLocation": {
            "uri": path.as_uri() if path.is_absolute() else quote(path.as_posix())
        },
        "region": {"startLine": finding.line},
    }
    return {
        "ruleId": finding.rule,
        "level": finding.severity,
        "message": {"text": finding.words},
        "locations": [{"physicalLocation": place}],
    }


def format_junit(findings: Iterable[Finding]) -> str:
    """Return a report of tests as JUnit writes it: an error is a failure, a warning the output of a test."""
    suite = ElementTree.Element("testsuite", name="triton-ensemble check")
    for f in findings:
        name, place = f"{f.shown_file}:{f.line}: {f.rule}", str(f.shown_file)
        case = ElementTree.SubElement(suite, "testcase", classname=place, name=escape_line(name))
        if f.severity == "error":
            ElementTree.SubElement(case, "failure", message=escape_line(f.words), type=f.rule)
        else:
            ElementTree.SubElement(case, "system-out").text = escape_line(f.words)
    if not len(suite):
        ElementTree.SubElement(suite, "testcase", classname="check", name="nothing found")
    suite.attrib |= {"tests": str(len(suite)), "failures": str(len(suite.findall(".//failure")))}
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


FORMATS: dict[str, Callable[[Iterable[Finding]], str]] = {
    "text": format_text,
    "github": format_github,
    "json": format_json,
    "sarif": format_sarif,
    "junit": format_junit,
}
