"""A plugin of coverage.py that measures lines and macros of the Jinja templates in hooks/ and template/.

Jinja compiles a template to Python, and keeps in it which line is made from which line of the template.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from coverage import CoveragePlugin, FileReporter, FileTracer
from coverage.plugin import CodeRegion
from coverage.plugin_support import Plugins

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("hooks", "template")
NO_LINE = (-1, -1)


class JinjaPlugin(CoveragePlugin):
    """Trace the templates of this repository, wherever a test copied them to."""

    def file_tracer(self, filename: str) -> FileTracer | None:
        source = find_source(Path(filename)) if filename.endswith(".jinja") else None
        return TemplateTracer(source) if source else None

    def file_reporter(self, filename: str) -> FileReporter:
        return TemplateReporter(filename)


def find_source(copy: Path) -> Path | None:
    """Return the template of this repository that a file is a copy of, or None if its text differs."""
    for at in reversed(range(len(copy.parts))):
        source = ROOT.joinpath(*copy.parts[at:])
        if copy.parts[at] in FOLDERS and source.is_file():
            return source if copy.read_bytes() == source.read_bytes() else None
    return None


class TemplateTracer(FileTracer):
    """Find the line of a template that a frame of its compiled code is at."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.lines: dict[int, dict[int, tuple[int, int]]] = {}  # by the first line of a function

    def source_filename(self) -> str:
        return str(self.source)

    def line_number_range(self, frame: FrameType) -> tuple[int, int]:
        code = frame.f_code
        lines = self.lines.get(code.co_firstlineno)
        if lines is None:
            if "debug_info" not in frame.f_globals:  # the module is being imported
                return NO_LINE
            lines = map_lines(code, frame.f_globals["debug_info"])
            self.lines[code.co_firstlineno] = lines
        return lines.get(frame.f_lineno, NO_LINE)


def map_lines(code: CodeType, debug_info: str) -> dict[int, tuple[int, int]]:
    """Return the template's line, as a range, by each line of a function that is its own, not of a macro inside it."""
    pairs = [pair.split("=") for pair in debug_info.split("&") if pair]
    starts = [int(start) for _, start in pairs]
    inside = {
        line for const in code.co_consts if isinstance(const, CodeType) for line in span(const)
    }
    places = {line: bisect_right(starts, line) - 1 for *_, line in code.co_lines() if line}
    return {
        line: (int(pairs[at][0]),) * 2
        for line, at in places.items()
        if at >= 0 and starts[at] not in inside
    }


def span(code: CodeType) -> range:
    """Return the lines of a function, with those of the functions inside it."""
    inside = [span(const) for const in code.co_consts if isinstance(const, CodeType)]
    ends = [line for *_, line in code.co_lines() if line] + [lines.stop - 1 for lines in inside]
    return range(code.co_firstlineno, max(ends) + 1)


@cache
def make_environment() -> Any:
    """Return Jinja as Copier sets it up for this template."""
    from jinja2.sandbox import SandboxedEnvironment  # only a report needs it
    from yaml import safe_load

    options = safe_load((ROOT / "copier.yml").read_text())["_envops"]
    del options["undefined"]  # a name, which changes nothing in what is compiled
    filters = "jinja2_ansible_filters.AnsibleCoreFiltersExtension"
    return SandboxedEnvironment(extensions=[filters], **options)


class TemplateReporter(FileReporter):
    """Say which lines of a template can be executed, and which macro each belongs to."""

    def relative_filename(self) -> str:
        return str(Path(self.filename).relative_to(ROOT))

    def lines(self) -> set[int]:
        module = make_environment().compile(self.source(), raw=True)
        [info] = [line for line in module.splitlines() if line.startswith("debug_info = ")]
        return {int(pair.split("=")[0]) for pair in info[14:-1].split("&") if pair}

    def code_regions(self) -> list[CodeRegion]:
        from jinja2.nodes import Macro, Node

        regions = []
        for macro in make_environment().parse(self.source()).find_all(Macro):
            lines = {macro.lineno, *(node.lineno for node in macro.find_all(Node))}
            regions.append(CodeRegion("macro", macro.name, macro.lineno, self.lines() & lines))
        return regions

    def code_region_kinds(self) -> list[tuple[str, str]]:
        return [("macro", "macros")]


def coverage_init(registry: Plugins, options: dict[str, Any]) -> None:
    """Register the plugin, as coverage.py asks for."""
    registry.add_file_tracer(JinjaPlugin())
