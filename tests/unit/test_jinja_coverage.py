"""The plugin of coverage.py that measures templates: which line of a template runs, and which could."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import jinja_coverage
import pytest
from jinja2 import Environment, FileSystemLoader
from jinja_coverage import NO_LINE, TemplateReporter, TemplateTracer, find_source, map_lines

TEXT = """\
{# a comment #}
{% macro used(x) %}{{ here() }}{% endmacro %}
{% macro unused() %}
  {{ here() }}
{% endmacro %}
{% for _ in range(2) %}
  {{ used(1) }}
{% endfor %}
text
{{ here() }}
"""


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "some.jinja"
    path.write_text(TEXT)
    return path


def frame_of(template: Path) -> FrameType:
    """Return the innermost frame of a template that is being rendered."""
    frame = sys._getframe()
    # Its path may be that of another test: the same text is compiled once.
    while Path(frame.f_code.co_filename).name != template.name:
        assert frame.f_back
        frame = frame.f_back
    return frame


def test_each_line_that_runs_is_the_templates(template: Path) -> None:
    tracer, seen = TemplateTracer(template), list[tuple[int, int]]()
    environment = Environment(loader=FileSystemLoader(template.parent))
    environment.globals["here"] = lambda: seen.append(tracer.line_number_range(frame_of(template)))
    environment.get_template(template.name).render()
    assert seen == [(2, 2), (2, 2), (10, 10)]


def test_a_macros_lines_do_not_run_where_it_is_defined(template: Path) -> None:
    environment = Environment(loader=FileSystemLoader(template.parent))
    render = environment.get_template(template.name).root_render_func
    lines = map_lines(render.__code__, render.__globals__["debug_info"])
    assert set(lines.values()) == {(6, 6), (7, 7), (10, 10)}


def test_a_frame_of_no_template_has_no_line(template: Path) -> None:
    assert TemplateTracer(template).line_number_range(sys._getframe()) == NO_LINE


def test_lines_and_macros_of_a_template(template: Path) -> None:
    reporter = TemplateReporter(str(template))
    assert reporter.lines() == {2, 3, 4, 6, 7, 10}
    regions = {region.name: region.lines for region in reporter.code_regions()}
    assert regions == {"used": {2}, "unused": {3, 4}}


def test_a_copy_is_the_template_only_while_its_text_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copy = tmp_path / "hooks/a.jinja", tmp_path / "copy/hooks/a.jinja"
    for path in (source, copy):
        path.parent.mkdir(parents=True)
        path.write_text("a\n")
    monkeypatch.setattr(jinja_coverage, "ROOT", tmp_path)
    assert find_source(copy) == source
    copy.write_text("b\n")
    assert find_source(copy) is None
    assert find_source(tmp_path / "elsewhere/a.jinja") is None
