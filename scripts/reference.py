"""Write what the package knows itself into the documentation: docs/cli.md, docs/alerts.md, the table of
docs/refused-repository.md, the examples' drawings, and docs/llms.txt.

PYTHONPATH=src python scripts/reference.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import yaml

from triton_ensemble.check.rules import RULES
from triton_ensemble.cli import COMMANDS, main
from triton_ensemble.compile.rules import rules
from triton_ensemble.facts import catalog
from triton_ensemble.targets import MAKE_OPTIONS

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "docs/llms.txt"
REPOSITORY = "https://raw.githubusercontent.com/org/triton-ensemble-template/main/"
LLMS = """\
# triton-ensemble-template

> A Copier template that makes a project which serves a pipeline of models as one NVIDIA Triton ensemble. The project
> runs a real Triton without Docker or a GPU. AGENTS.md of a project says how to work in it.
"""
WRITTEN = """\
<!-- Written by scripts/reference.py. -->
<!-- skip: start "tests/unit/docs/test_reference_pages.py compares this page with its script" -->

"""
DRAWN = '<!-- skip: next "drawn by scripts/reference.py" -->\n'
VARIABLES = "".join(
    f"| {' | '.join(row['variables'])} |\n"
    for row in catalog.table("extras").values()
    if "variables" in row
)
CLI = f"""{WRITTEN}\
# The command

The toolkit has these commands, for scripts and for work without make. In a project,
call `python3 vendor/NAME.whl/triton_ensemble COMMAND`, as `make` does. It makes or renews the environment, applies a
changed `pipeline.yml`, completes the model repository, and runs the command. `.venv/bin/triton-ensemble COMMAND` does
the command alone.

These variables of the shell count, and `make` takes them in its command line too:

| variable | command | |
|---|---|---|
| `TRITON_URL`, `TRITON_GRPC_URL`, `TRITON_METRICS_URL` | all that ask a server | a server that runs elsewhere |
| `TRITON_RECORD`, `TRITON_RECORD_...` | all that ask a server, `gateway`, `record` | a folder for [recordings](client.md#recordings), and its limits |
| `TOKEN` | `replay` | sent to the server as `Authorization: Bearer TOKEN` |
| `HTTP_PORT`, `GRPC_PORT`, `METRICS_PORT` | `serve`, and all that ask it | ports of Triton; 0 is a free one |
{VARIABLES}\
| `STORE` | all that need versions | the bucket that keeps the files of published versions |
| `STRICT` | `check`, `infer`, `test`, `push` | stubs are errors |
| `STAGE` | `serve`, and all that start a server | a stage of pipeline.yml; with make `ENV=prod` |
| `VENV`, `PYTHON`, `UV`, `SETUP`, `TOOLKIT`, `TORCH_INDEX` | all | the environment: [daily.md](environment.md) |
| `PIP_INDEX_URL`, `UV_DEFAULT_INDEX`, `HTTPS_PROXY` | all | the package index and the way to it |
| `ADMIN_KEY_FILE`, `AWS_...` | `shift`, `unload`, `push`, `store` | keys |

The other variables of `make` are options of one command. They count in make's command line alone, because a shell may
have a `NAME` for another purpose. `ARGS` has words that the command takes as they are. `ENV` is `STAGE`.

`STRICT`, `TRITON_PORTS`, and the variables that are options without a value, such as `UNDO`, mean no if they are empty,
`0`, `no` or `false`. Any other text means yes.

| command | variables |
|---|---|
"""
ALERTS = f"""{WRITTEN}\
# Alerts

These alerts watch a pipeline. The page says what each means and how it is
computed. `deploy/monitoring/alerts.yml` has them. These are the alerts of an ensemble `digits` with a gateway.
`severity` is critical if clients get no answers or wrong ones, otherwise warning. promtool tests whether each alert
fires and clears, with metrics that Triton itself had in such trouble.

"""
# A pipeline that has all alerts: a queue with an end, and a gateway.
WATCHED: dict[str, Any] = {
    "project_name": "digits",
    "starting_pipeline": "my-own",
    "extras": ["monitoring", "gateway"],
    "tensors": {"PIXELS": "FP32[64]", "LOGITS": "FP32[10]", "LABEL": "STRING[1]"},
    "steps": [
        {
            "name": "classify",
            "backend": "onnxruntime",
            "inputs": ["PIXELS"],
            "outputs": ["LOGITS"],
            "batching": {"default_queue_policy": {"max_queue_size": 64}},
        },
        {"name": "label", "backend": "python", "inputs": ["LOGITS"], "outputs": ["LABEL"]},
    ],
}


def cli() -> str:
    """Return the page of commands: what each answers to --help."""
    modules: dict[str, list[str]] = {}
    for name, (module, _) in COMMANDS.items():
        modules.setdefault(module, []).append(name)
    pages = [
        f"\n## {', '.join(names)}\n\n```text\n{_help(names[0])}```\n" for names in modules.values()
    ]
    rows = (
        f"| `{command}` | {', '.join(f'`{name}`' for name in options)} |\n"
        for command, options in MAKE_OPTIONS.items()
    )
    return f"{CLI}{''.join(rows)}\n```text\n{_help()}```\n{''.join(pages)}"


def _help(*words: str) -> str:
    os.environ["COLUMNS"] = "100"  # as wide as argparse may write
    out = StringIO()
    with redirect_stdout(out), suppress(SystemExit):
        main([*words, "--help"])
    return out.getvalue()


def alerts() -> str:
    """Return the page of alerts."""
    return ALERTS + "\n".join(_alerts())


def _alerts() -> Iterator[str]:
    template = rules().templates.template("template/deploy/monitoring/alerts.yml.jinja")
    groups = yaml.safe_load(template.render(rules().answer(WATCHED)))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        name, expression = rule.get("alert") or rule["record"], rule["expr"].strip()
        yield f"## {name}\n\n{_meaning(rule)}\n\n```text\n{expression}\n```\n"


def _meaning(rule: dict[str, Any]) -> str:
    """Return what an alert says, with N for a number and NAME for a label; of a rate, who reads it."""
    if "record" in rule:
        return "A rate, which the alerts below and the dashboard read."
    summary = re.sub(r"{{ \$value.*?}}", "N", rule["annotations"]["summary"])
    summary = re.sub(r"{{ \$labels.*?}}", "NAME", summary)
    lasting = f", after {rule['for']}" if "for" in rule else ""
    return f"**{rule['labels']['severity'].capitalize()}**{lasting}: {summary}"


def drawn(readme: Path) -> str:
    """Return the README of an example with the drawing of its pipeline, above the table of its steps."""
    answered = rules().answer({"starting_pipeline": readme.parent.name})
    drawing = rules().templates.template("hooks/stubs/diagram.jinja").render(answered)
    written = DRAWN + r"```mermaid\nflowchart LR\n  in1\(.*?```\n\n"
    text = re.sub(written, "", readme.read_text(encoding="utf-8"), flags=re.DOTALL)
    if "```mermaid" in text:  # drawn by hand, with what the pipeline does not say
        return text
    before, table, after = text.partition("| step |")
    return f"{before}{DRAWN}```mermaid\n{drawing}```\n\n{table}{after}"


def messages() -> str:
    """Return the page of the messages that rules of the check know."""
    path = ROOT / "docs/refused-repository.md"
    text, _, _ = path.read_text(encoding="utf-8").partition("| message |")
    rows = [
        f"| `{message}` | {rule.summary} | [{rule.id}](check.md#{rule.id}) |\n"
        for rule in RULES.values()
        for message in re.findall(r"`([^`]*)`", rule.triton)
        if " " in message and not message.startswith(("make ", "..."))
    ]
    return f"{text}| message | what has to hold | rule |\n|---|---|---|\n{''.join(rows)}"


def llms() -> str:
    """Return the list of pages for language models (llmstxt.org), in the order of docs/index.md."""
    index = ROOT / "docs/index.md"
    parts = index.read_text(encoding="utf-8").split(":caption: ")[1:]
    return LLMS + "".join(
        f"\n## {part.splitlines()[0]}\n\n" + "".join(_list_pages(part, index.parent))
        for part in parts
    )


def _list_pages(text: str, folder: Path) -> Iterator[str]:
    """Yield a line for each page of a toctree, and below it those of its own toctree."""
    for name in re.findall(r"^(?:.*<)?([\w./*\[\]-]+)>?$", text.partition("```")[0], re.MULTILINE):
        for path in sorted(path.resolve() for path in folder.glob(f"{name}.md")):
            page = path.read_text(encoding="utf-8")
            if title := re.search(r"^# (.*)", page, re.MULTILINE):
                yield f"- [{title[1]}]({REPOSITORY}{path.relative_to(ROOT)})\n"
            for more in page.split("```{toctree}\n")[1:]:
                yield from _list_pages(more, path.parent)


def pages() -> dict[Path, str]:
    """Return the text of each file."""
    examples = {path: drawn(path) for path in sorted(ROOT.glob("examples/*/README.md"))}
    docs = {"cli": cli(), "alerts": alerts(), "refused-repository": messages()}
    return (
        {ROOT / f"docs/{name}.md": text for name, text in docs.items()} | examples | {LIST: llms()}
    )


if __name__ == "__main__":
    for path, page in pages().items():
        path.write_text(page, encoding="utf-8")
