"""Rules that hold for the files of this repository, whatever they do."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import ROOT, run, succeed
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

from scripts import lock
from triton_ensemble.check.rules.deployment import ENTRIES, EXCLUDES, NEEDS

FILE_RULES = ROOT / "src" / "triton_ensemble" / "check" / "pipeline" / "rules"
NAMES = (
    succeed(run("git", "ls-files", "-zco", "--exclude-standard", cwd=ROOT)).rstrip("\0").split("\0")
)
SETTINGS = {
    "_min_copier_version",
    "_subdirectory",
    "_templates_suffix",
    "_envops",
    "_exclude",
    "_skip_if_exists",
    "_message_before_copy",
    "_message_after_copy",
    "_message_before_update",
    "_message_after_update",
}
QUESTION = {
    "type",
    "help",
    "default",
    "choices",
    "validator",
    "when",
    "ask",
    "multiline",
    "multiselect",
    "placeholder",
}


@pytest.fixture(scope="module")
def copier_yml() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "copier.yml").read_text()))


@pytest.fixture(scope="module")
def questions(copier_yml: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: given for name, given in copier_yml.items() if not name.startswith("_")}


def catalog(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / f"hooks/catalog/{name}.yml").read_text()))


def test_copier_yml_has_only_settings_that_copier_knows_and_none_that_needs_trust(
    copier_yml: dict[str, Any],
) -> None:
    """Copier ignores settings that it does not know, and _tasks, _migrations and _jinja_extensions need trust."""
    assert {name for name in copier_yml if name.startswith("_")} <= SETTINGS


def test_questions_have_only_keys_that_copier_knows(questions: dict[str, dict[str, Any]]) -> None:
    assert {
        name: given.keys() - QUESTION
        for name, given in questions.items()
        if given.keys() - QUESTION
    } == {}


def test_each_question_that_is_asked_says_what_it_asks(
    questions: dict[str, dict[str, Any]],
) -> None:
    for name, given in questions.items():
        if given.get("when") is not False:
            assert re.search(r"[?.]", given["help"]), name
            assert "default" in given, name


def test_each_answer_is_checked(questions: dict[str, dict[str, Any]]) -> None:
    asked = {name for name, given in questions.items() if given.get("when") is not False}
    fields = catalog("fields")
    assert fields["answer"].keys() | fields["prompt"].keys() == asked


def test_the_problems_of_the_table_are_those_that_rules_say() -> None:
    hooks = "".join(path.read_text() for path in sorted((ROOT / "hooks").rglob("*.jinja")))
    calls = re.findall(r"\b(?:say|because)\(([^,)]*)", hooks)
    package = "".join(path.read_text() for path in FILE_RULES.parent.rglob("*.py"))
    calls += re.findall(r"\b[Mm]istake\(([^,)]*)", package)
    said = {rule for call in calls for rule in re.findall(r"['\"]([a-z-]+)['\"]", call)}
    said |= catalog("problems").keys() & {*re.findall(r"'([a-z-]+)'", hooks)}  # in a table
    assert said == catalog("problems").keys(), "make the rows of catalog/problems.yml the same"


def test_paths_can_be_checked_out_on_windows() -> None:
    assert [name for name in NAMES if re.search(r'["|<>:?*\\]', name) or len(name) > 200] == []


def test_template_files_are_rendered_or_have_nothing_to_render() -> None:
    """A file without the suffix is copied as it is, template syntax and all."""
    copied = [
        name
        for name in NAMES
        if name.startswith("template/") and not name.endswith((".jinja", ".whl"))
    ]
    assert [name for name in copied if has_template_syntax(ROOT / name)] == []


def test_example_files_are_no_templates() -> None:
    """Templates include them, so they are rendered."""
    examples = [ROOT / name for name in NAMES if name.startswith("examples/")]
    assert examples
    assert [path for path in examples if has_template_syntax(path)] == []


def has_template_syntax(path: Path) -> bool:
    """Return whether a file has template syntax. `${{` is that of GitHub's workflows."""
    if not path.is_file() or path.suffix in {".png", ".jpg", ".mp4", ".wav"}:  # copied as they are
        return False
    return bool(re.search(rb"(?<!\$)\{\{|\{%|\{#", path.read_bytes()))


def test_each_link_of_the_template_leads_to_the_folder_of_an_example() -> None:
    lists = runpy.run_path(str(ROOT / "scripts/lists.py"))
    links = {path: path.resolve() for path in (ROOT / "template").rglob("*") if path.is_symlink()}
    assert (
        links.pop(ROOT / "template/vendor/{% if graph.team.given %}team{% endif %}")
        == ROOT / "team"
    )
    assert links == lists["links"](), "run: make pages"


def test_the_top_level_is_small_and_the_map_has_each_folder_of_it() -> None:
    assert len({name.partition("/")[0] for name in NAMES}) <= 24
    drawn = (ROOT / "CONTRIBUTING.md").read_text().split("## The map")[1].split("```")[1]
    folders = {name.partition("/")[0] for name in NAMES if "/" in name}
    assert {*re.findall(r"^([\w.]+)/", drawn, re.MULTILINE)} == folders


def test_a_file_that_curl_sends_is_there() -> None:
    for name, row in catalog("examples").items():
        assert (ROOT / "examples" / name / row.get("curl", "")).exists()


def test_an_example_that_runs_pip_requires_it() -> None:
    """An environment that uv makes has no pip."""
    running = {
        p.parents[1] for p in ROOT.glob("examples/*/models/*.py") if '"pip"' in p.read_text()
    }
    assert running
    for folder in running:
        steps = yaml.safe_load((folder / "pipeline.yml").read_text())["steps"]
        assert any("pip" in step.get("requirements", []) for step in steps), folder


def test_an_update_brings_no_file_of_an_example_again() -> None:
    kept = yaml.safe_load((ROOT / "copier.yml").read_text())["_skip_if_exists"]
    for row in catalog("examples").values():
        for path in row.get("files", []) + row.get("folders", []):
            assert f"/{path}".startswith(tuple(kept))


def test_lock_files_name_versions_and_hashes_and_no_index() -> None:
    locks = [*(ROOT / "locks").rglob("*.*")]
    locks += [path for name in lock.OWN for path in ROOT.glob(f"template/vendor/{name}.txt*")]
    for path in locks:
        text = re.sub(r"^(#|\{%).*\n", "", path.read_text(), flags=re.MULTILINE)
        entries = text.replace("\\\n", " ").splitlines()
        for entry in entries:
            assert re.fullmatch(r"\S+==\S+( ; .*?)?( +--hash=sha256:[0-9a-f]{64})+ *", entry), (
                path.name,
                entry[:80],
            )


FILES = {
    "a": "p-1.tar.gz",
    "b": "p-1-py3-none-any.whl",
    "c": "p-1-cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "d": "p-1-cp310-abi3-manylinux_2_28_aarch64.whl",
    "e": "p-1-cp311-cp311-musllinux_1_2_x86_64.whl",
    "f": "p-1-cp313-cp313-manylinux_2_28_x86_64.whl",
    "0": "p-1-cp312-cp312-macosx_11_0_universal2.whl",
    "1": "p-1-cp310-abi3-win_amd64.whl",
    "2": "p-1-cp310-abi3-win32.whl",
    "3": "p-1-cp310-abi3-manylinux_2_28_x86_64.whl",
}


@pytest.mark.parametrize(
    ("marker", "hashes", "kept"),
    [
        ("", "ab", "b"),  # a wheel for all of them: the source is not built
        ("", "a9", "a"),  # uv leaves out a file that no Python since 3.10 takes
        ("", "a012cdef", "01acd"),  # Python 3.11 of Linux has no wheel
        ("sys_platform == 'linux'", "a013d", "3d"),
        ("python_full_version < '3.11' and sys_platform == 'linux'", "0acdf", "cd"),
    ],
)
def test_a_lock_has_the_files_that_a_supported_machine_installs(
    marker: str, hashes: str, kept: str
) -> None:
    head = f"p==1 ; {marker}" if marker else "p==1"
    entry, pruned = (
        head + "".join(f" \\\n    --hash=sha256:{digest}" for digest in each) + "\n"
        for each in (hashes, kept)
    )
    assert lock.prune_entry(entry, FILES) == pruned


def test_a_package_has_one_version_everywhere() -> None:
    """This holds where it is written out, not locked."""
    pins: dict[str, set[str]] = {}
    for name in NAMES:
        path = ROOT / name
        if (
            path.is_file()
            and path.suffix in {".jinja", ".yml", ".py", ""}
            and not name.startswith("tests/")
        ):
            for package, version in re.findall(
                rb"\b(torch|nvidia-pytriton)==([0-9.]+[0-9])", path.read_bytes()
            ):
                pins.setdefault(package.decode(), set()).add(version.decode())
    assert {package: len(versions) for package, versions in pins.items()} == {
        "torch": 1,
        "nvidia-pytriton": 1,
    }


def test_the_data_types_are_those_of_triton() -> None:
    known = {
        value.name.removeprefix("TYPE_") for value in model_config_pb2.DataType.DESCRIPTOR.values
    }
    assert catalog("types").keys() == known - {"INVALID"}


def test_the_fields_of_a_config_are_those_of_triton() -> None:
    fields = model_config_pb2.ModelConfig.DESCRIPTOR.fields
    counts = {field.name: "repeated" if field.is_repeated else "single" for field in fields}
    assert catalog("config")["fields"] == counts


MESSAGES = {
    "batching": "ModelDynamicBatching",
    "control": "ModelSequenceBatching.Control",
    "control input": "ModelSequenceBatching.ControlInput",
    "direct": "ModelSequenceBatching.StrategyDirect",
    "initial state": "ModelSequenceBatching.InitialState",
    "oldest": "ModelSequenceBatching.StrategyOldest",
    "queue policy": "ModelQueuePolicy",
    "sequence": "ModelSequenceBatching",
    "state": "ModelSequenceBatching.State",
    "warmup": "ModelWarmup",
}


@pytest.mark.parametrize(("kind", "message"), MESSAGES.items())
def test_the_fields_of_a_part_of_a_config_are_those_of_triton(kind: str, message: str) -> None:
    outer, _, inner = message.partition(".")
    found = model_config_pb2.DESCRIPTOR.message_types_by_name[outer]
    found = found.nested_types_by_name[inner] if inner else found
    names = {re.sub("_us$", "_microseconds", field) for field in catalog("fields")[kind]}
    assert names == {field.name for field in found.fields}


def test_releases_are_texts_in_order() -> None:
    releases = list(catalog("releases"))
    assert all(re.fullmatch(r"2\d\.(0[1-9]|1[0-2])", release) for release in releases)
    assert releases == sorted(releases)


@pytest.mark.parametrize(
    ("text", "newer"),
    [
        ("v2.73.0\nv2.75.0\nv2.9.0\n", []),
        ("v2.75.0\ntritonclient (2.100.0)\nAvailable versions: 2.100.0, 2.75.1, 2.74.0", ["2.75.1", "2.100.0"]),
        ("", []),
    ],
)  # fmt: skip
def test_a_release_of_triton_that_the_table_lacks_is_found(text: str, newer: list[str]) -> None:
    table = "".join(f"triton: {row['triton']}\n" for row in catalog("releases").values())
    list_newer = runpy.run_path(str(ROOT / "scripts/triton_releases.py"))["list_newer"]
    assert list_newer(text, table) == newer


def test_each_field_of_the_grammar_is_documented() -> None:
    page = "".join(
        (ROOT / f"docs/{name}.md").read_text() for name in ("pipeline", "gateway", "stages")
    )
    described = (ROOT / "docs/fields.md").read_text()  # it has the words of fields with a row
    fields = {name: row for of in catalog("fields").values() for name, row in of.items()}
    lacking = {
        name
        for name, row in fields.items()
        if not re.search(rf"[`{{ ]{name}[`:,}}]", page if isinstance(row, str) else described)
    }
    assert lacking == set(), (
        "add these fields to docs/pipeline.md, docs/gateway.md or docs/stages.md"
    )


def test_the_check_knows_components_by_the_names_that_the_template_has() -> None:
    """Also their entries in kustomization.yaml, which the template writes."""
    needs = [(name, (one,)) for name, one in NEEDS.items()]
    for component, others in (*EXCLUDES.items(), *needs):
        platform, _, name = component.partition("/")
        for each in (name, *others):
            assert [*ROOT.glob(f"template/deploy/*{platform}*/components/{each}")], each
    for component, (kind, _) in ENTRIES.items():
        path = ROOT / f"template/deploy/{component.partition('/')[0]}/kustomization.yaml.jinja"
        # The owner takes the comment away who chooses the component.
        assert re.search(rf"^(# )?{kind}:", path.read_text(), re.MULTILINE), component
