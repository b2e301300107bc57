"""What a check finds, and how it is printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

# Each rule by its id, and how much it matters. An error: Triton refuses the repository, or never
# answers. A warning: it serves it, but not as it is written, or not every request.
RULES = {
    "backend": "error",
    "backend-gone": "error",
    "backend-misspelt": "error",
    "batch-io": "error",
    "batching-ignored": "warning",
    "batching-order": "error",
    "batching-priority": "error",
    "batching-size": "error",
    "broken-link": "error",
    "cache": "error",
    "cache-off": "warning",
    "config-made-up": "warning",
    "config-missing": "error",
    "decoupled-merge": "error",
    "ensemble-cycle": "error",
    "ensemble-field": "error",
    "ensemble-input-unused": "error",
    "ensemble-input-written": "error",
    "ensemble-output-unwritten": "error",
    "ensemble-platform": "error",
    "execution-environment": "error",
    "folder-name": "error",
    "folder-of-no-step": "warning",
    "image-release": "warning",
    "instance-kind": "error",
    "instance-gpus": "error",
    "instance-gpu-count": "warning",
    "instance-passive": "error",
    "instance-profile": "error",
    "label-count": "warning",
    "label-file": "error",
    "map-key-lost": "error",
    "map-key-twice": "warning",
    "map-unknown-tensor": "error",
    "max-batch-size": "error",
    "metrics": "error",
    "model-file": "error",
    "name": "error",
    "optional-chain": "warning",
    "outputs-apart": "warning",
    "outputs-exposed": "warning",
    "output-twice": "error",
    "parse": "error",
    "pipeline-changed": "error",
    "python-arguments": "error",
    "python-class": "error",
    "python-execute": "error",
    "python-print": "warning",
    "python-return": "warning",
    "python-syntax": "error",
    "readers-differ": "warning",
    "repository-writable": "warning",
    "requirement-unlocked": "warning",
    "sequence-batching": "error",
    "sequence-control": "error",
    "sequence-input": "error",
    "sequence-state": "error",
    "shared-memory": "warning",
    "step-batch-size": "error",
    "step-incomplete": "error",
    "step-input-missing": "error",
    "step-model": "error",
    "step-version": "error",
    "tensor-dims": "error",
    "tensor-format": "error",
    "tensor-name": "error",
    "tensor-reshape": "error",
    "tensor-shape": "error",
    "tensor-trt-only": "error",
    "tensor-twice": "warning",
    "tensor-type": "error",
    "tensor-type-unsupported": "warning",
    "tensor-types-differ": "error",
    "tensor-unused": "error",
    "tensor-written-twice": "error",
    "too-new": "error",
    "version": "error",
    "version-folder": "warning",
    "version-listed": "warning",
    "warmup-batch": "error",
    "warmup-data": "error",
    "warmup-input": "error",
    "warmup-skipped": "warning",
    "warmup-unknown": "error",
}


@dataclass(frozen=True, order=True)
class Finding:
    """Where, which rule, what is wrong, what to do instead."""

    file: Path
    line: int
    rule: str
    what: str
    instead: str

    @property
    def severity(self) -> str:
        return RULES[self.rule]

    def shown(self) -> Path:
        """The path as a person in this directory names it."""
        here = Path.cwd()
        return self.file.relative_to(here) if self.file.is_relative_to(here) else self.file


def text(found: Iterable[Finding]) -> str:
    return "\n".join(
        printable(f"{f.shown()}:{f.line}: {f.severity}: {f.rule}: {f.what}; {f.instead}")
        for f in found
    )


def printable(line: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def github(found: Iterable[Finding]) -> str:
    """Annotations of a pull request."""
    return "\n".join(
        f"::{f.severity} file={escaped(str(f.shown()), ',:')},line={f.line},title={f.rule}"
        f"::{escaped(f'{f.what}; {f.instead}')}"
        for f in found
    )


def escaped(value: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        value = value.replace(character, f"%{ord(character):02X}")
    return value


def as_json(found: Iterable[Finding]) -> str:
    return json.dumps(
        [
            {
                "file": str(f.shown()),
                "line": f.line,
                "rule": f.rule,
                "severity": f.severity,
                "what": f.what,
                "instead": f.instead,
            }
            for f in found
        ],
        indent=1,
    )


FORMATS: dict[str, Callable[[Iterable[Finding]], str]] = {
    "text": text,
    "github": github,
    "json": as_json,
}
