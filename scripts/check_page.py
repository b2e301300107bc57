"""Write docs/check.md: the text below, and each rule of the check with its example.

PYTHONPATH=src python scripts/check_page.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from triton_ensemble.check.rules import TOPICS, rules_of
from triton_ensemble.check.rules.explain import describe_rule
from triton_ensemble.facts import catalog

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "check.md"
HEAD = """\
<!-- Written by scripts/check_page.py, from the rules in src/triton_ensemble/check/rules/. -->
<!-- skip: start "tests/triton/check/test_check_rules.py tries each example of this page" -->

# The check

`triton-ensemble check REPOSITORY` finds what Triton would refuse in a model repository, of this template
or not, or load and never answer. It needs no server, no GPU and little memory:

```console
$ uvx --from git+https://github.com/org/triton-ensemble-template triton-ensemble check model_repository
```

```console
model_repository/image_classification/config.pbtxt:50: error: step-version: ensemble 'image_classification' depends on 'label' whose required version 0 is not loaded; write model_version: -1 for the latest
```

In a project of this template, run `make check`; `make test` runs it first. In a clone, run
`PYTHONPATH=src python -m triton_ensemble check REPOSITORY`. It needs numpy, PyYAML and
tritonclient[grpc], on any Python from 3.10.

A finding is `file:line: severity: rule: what; what to do`. The line is the line of the field. If the
field is missing, it is the line of the field that should have it.

- **Error**: Triton refuses it, or loads it and then never answers.
- **Warning**: Triton serves it otherwise than it is written, or not for every request.

| exit status | |
|---|---|
| 0 | no errors; if nothing was found, stderr says how many models were checked |
| 1 | a finding is an error |
| 2 | there is nothing to check |

| option | |
|---|---|
| `--format github` | annotations of a pull request |
| `--format json` | for programs |
| `--format sarif` | for code scanning, as GitHub's and GitLab's |
| `--format junit` | for CI that shows test reports |
| `--release 24.10` | the Triton that will serve the repository, 24.10 or later (a line says so if it is newer than the toolkit); the default is `triton_release` in a project, and the newest elsewhere |

The check loads and runs nothing: it reads the first and last bytes of model files, and the text of Python
code. So it does not see:

- the tensors of a model file
- whether a Python model's imports are installed
- how a server is started by other means than `deploy/` (a cache, shared memory, GPUs)
- dims of -1, which Triton compares with each request only

## Rules

Each rule says what holds, and what Triton says or does otherwise (`x` is a name). It also has an example: without
the lines in red there is nothing to find. `triton-ensemble explain RULE` prints the same.

| rule | severity | holds |
|---|---|---|
"""
FAULTS = """
## Known faults of releases

Triton has each fault from the release under "since" (empty: from 24.10 or earlier) until the release that fixes it. If
several rows of one need concern a project, [`known-fault`](#known-fault) and the last message of a copy name the first.
`server#8925` is a thread of triton-inference-server/server. The table is `hooks/catalog/faults.yml`;
[security.md](security.md#what-a-client-can-do-at-tritons-ports) has more that a client can do.

| a step that | since | Triton | thread | fixed by |
|---|---|---|---|---|
"""


def text() -> str:
    """Return the page."""
    return "".join(_page())


def _page() -> Iterator[str]:
    yield HEAD
    for topic in TOPICS:
        for rule in rules_of(topic):
            yield f"| [`{rule.id}`](#{rule.id}) | {rule.severity} | {rule.summary} |\n"
    for topic in TOPICS:
        yield from _section(topic)
    yield FAULTS
    for row in catalog.table("faults")["faults"]:
        says = catalog.table("faults")["needs"].get(row.get("needs"), ["", "(any)"])[1]
        fixed = "none known; not reported for " * row.get("open", False) + row["before"]
        yield f"| {says} | {row.get('since', '')} | {row['fault']} | {row['thread']} | {fixed} |\n"


def _section(topic: ModuleType) -> Iterator[str]:
    yield f"\n## {(topic.__doc__ or '').strip()}\n"
    for rule in rules_of(topic):
        yield f"\n### {rule.id}\n\n{describe_rule(rule)}"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
