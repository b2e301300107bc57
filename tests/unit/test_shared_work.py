"""Work that processes of a test run share or do once, and what each of them would make of it alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import copier
import jinja2
import pytest
from shared_work import FROM_TEMPLATE, VARIABLE
from support import run, succeed

from triton_ensemble.serve import model_files

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


def test_a_version_of_a_template_is_checked_out_once_until_its_tag_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, made = tmp_path / "template", list[str]()
    (tmp_path / "clones").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "clones"))
    for text in ("one", "two"):
        origin.mkdir(exist_ok=True)
        (origin / "text").write_text(text)
        (origin / "where.jinja").write_text("{{ _copier_conf.src_path }}")
        for command in ("init -q", "add --all", f"commit -q -m {text}", "tag --force v1.0.0"):
            succeed(run("git", *command.split(), cwd=origin))
        for number in (1, 2):
            target = tmp_path / f"{text}-{number}"
            copier.run_copy(str(origin), target, vcs_ref="v1.0.0", quiet=True)
            assert (target / "text").read_text() == text
            made.append((target / "where").read_text())
    assert made == [made[0], made[0], made[2], made[2]]
    assert made[0] != made[2]


def test_what_is_computed_once_a_copy_renders_each_path(tmp_path: Path) -> None:
    """Behind a path that yields, Copier's own computation forgets what it yields."""
    texts = {
        "copier.yml": "names: {type: yaml, default: []}\n_answers_file: '{{ names[0] }}.yml'",
        "{{ _copier_conf.answers_file }}.jinja": "{{ _copier_answers.names }}",
        "{% yield name from names %}{{ name }}{% endyield %}.jinja": "{{ name }}",
        "{{ names[1] }}-folder/last.jinja": "{{ name is defined }}",
    }
    for name, text in texts.items():
        path = tmp_path / "template" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for one, two in ("ab", "cd"):
        made = tmp_path / one
        copier.run_copy(str(tmp_path / "template"), made, {"names": [one, two]}, quiet=True)
        found = {path.name: path.read_text() for path in made.rglob("*") if path.is_file()}
        assert found == {f"{one}.yml": f"['{one}', '{two}']", one: one, two: two, "last": "False"}


@pytest.mark.parametrize(("head", "shares"), [(FROM_TEMPLATE.decode(), True), ("# Mine", False)])
def test_a_script_of_the_template_builds_once_until_a_file_beside_it_changes(
    folder: Path, tmp_path: Path, head: str, shares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"{head}\n\ndef build(path):\n    path.write_text(__file__)\n"
    built = []
    for name, step in (("one", ""), ("two", ""), ("three", "edited")):
        for module in ("models", "models.made"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        made = tmp_path / name / "models" / "made.py"
        for path, text in ((made, script), (tmp_path / name / "steps" / "a.py", step)):
            path.parent.mkdir(parents=True)
            path.write_text(text)
        target = tmp_path / name / "1" / "model.bin"
        assert [*model_files.make(made, target, tmp_path / name)] == [target]
        built.append(Path(target.read_text()).parts[-3])
    assert built == ["one", "one" if shares else "two", "three"]
