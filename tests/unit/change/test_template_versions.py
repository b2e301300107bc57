"""The template's address and versions, which an update reads as Copier does."""

from __future__ import annotations

from pathlib import Path

import pytest
from copier import _vcs
from safe_update_support import commit, write
from support import run, succeed

from triton_ensemble.change import ChangeError
from triton_ensemble.change.template import Template, find_address

TAGS = [
    "v1.0.0",
    "v1.9.0",
    "v1.10.0",
    "v1.10.0+team.1",
    "v2.0.0rc1",
    "v1.11.0.dev1",
    "old",
    "v3.0.0-team.1",
]


@pytest.mark.parametrize(
    "source",
    [
        "gh:me/triton",
        "gh:/me/triton.git",
        "gl:group/sub/triton",
        "https://github.com/me/triton",
        "https://gitlab.com/me/triton.git",
        "https://git.example.org/triton.git",
        "git+https://git.example.org/triton",
        "git+ssh://git@git.example.org/triton",
        "git@github.com:me/triton.git",
        "git://git.example.org/triton",
        "ssh://git@git.example.org/triton.git",
    ],
)
def test_an_address_is_that_of_copier(source: str, tmp_path: Path) -> None:
    assert find_address(source, tmp_path) == _vcs.get_repo(source)


def test_a_folder_is_relative_to_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "a template").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    for source in ("../a template", "~/a template", str(tmp_path / "a template")):
        assert find_address(source, tmp_path / "project") == str(tmp_path / "a template")
    with pytest.raises(ChangeError, match="_src_path elsewhere: is not a folder here"):
        find_address("elsewhere", tmp_path)


@pytest.mark.parametrize("prereleases", [False, True])
@pytest.mark.parametrize("tags", [TAGS, ["old"], []])
def test_the_newest_version_is_that_of_copier(
    tags: list[str], prereleases: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "template"
    write(folder, file="text\n")
    commit(folder)
    for tag in tags:
        succeed(run("git", "tag", tag, cwd=folder))
    template = Template.clone(tmp_path, {"_src_path": str(folder)}, tmp_path)
    newest = template.find_newest(prereleases)
    assert newest == _vcs.get_latest_tag(str(folder), prereleases)
    assert template.find_commit(newest) == template.find_commit("HEAD")


def test_commits_since_a_version_are_newer(tmp_path: Path) -> None:
    folder = tmp_path / "template"
    write(folder, file="text\n")
    for tag in ("", "v1.0.0", "", "v1.1.0rc1", "v1.1.0"):
        commit(folder, tag)
    template = Template.clone(tmp_path, {"_src_path": str(folder)}, tmp_path)
    commits = [template.find_commit(f"HEAD~{back}") for back in (4, 3, 2, 1, 0)]
    for number, old in enumerate(commits):
        for new in commits[number:]:
            template.refuse_downgrade("old", old, new)
        for new in commits[:number]:
            with pytest.raises(
                ChangeError, match="_commit old is newer than the template's newest"
            ):
                template.refuse_downgrade("old", old, new)
