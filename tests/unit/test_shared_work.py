"""What Jinja compiles is kept for other processes, and is what each of them would compile itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import jinja2
import pytest
from shared_work import VARIABLE

TEMPLATE = "{% for a in b %}{{ a }}\n{% endfor %}{% macro c() %}d{% endmacro %}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def walk(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from walk(each)


def test_a_copy_of_a_template_is_not_compiled_again(folder: Path) -> None:
    for name in ("one", "two"):
        code = jinja2.Environment().compile(f"{TEMPLATE}{folder}", "t", f"/{name}/t")
        assert {each.co_filename for each in walk(code)} == {f"/{name}/t"}
    assert len([*folder.iterdir()]) == 1


@pytest.mark.parametrize(("trims", "printed"), [(False, "\n1\n\n2\n"), (True, "1\n2\n")])
def test_other_settings_compile_otherwise(folder: Path, trims: bool, printed: str) -> None:
    text = f"{{# {folder} #}}" + "{% for a in b %}\n{{ a }}\n{% endfor %}"
    assert jinja2.Environment(trim_blocks=not trims).from_string(text).render(b=[1, 2]) != printed
    assert jinja2.Environment(trim_blocks=trims).from_string(text).render(b=[1, 2]) == printed
    assert len([*folder.iterdir()]) == 2


def test_what_cannot_be_kept_is_compiled(folder: Path) -> None:
    folder.rmdir()
    assert jinja2.Environment().from_string(f"{TEMPLATE}{folder}").render(b=[1]) == f"1\n{folder}"
