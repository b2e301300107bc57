"""`make update` is all or nothing, and keeps what its owner wrote: on a template of a few files."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import copier
import jinja2
import pytest
from apply_support import break_off, run_broken, small_disk  # noqa: F401
from package_index import add_wheel
from safe_update_support import (  # noqa: F401
    COMMAND,
    CONFLICT,
    FILES,
    HEAD,
    LINES,
    NEW,
    WHEEL,
    Origin,
    commit,
    edit,
    origin,
    project,
    update,
    write,
)
from support import SOURCES, Project, run, succeed, variables
from update_support import managed

from triton_ensemble.change.stage import PREFIX


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """All that a failed update must leave alone: files, their modes, and git's index and refs."""
    git = folder / ".git"
    paths = [path for path in folder.rglob("*") if git not in path.parents]
    paths += [path for path in (git / "index", git / "HEAD") if path.exists()]
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in paths
        if {"__pycache__", ".apply"}.isdisjoint(path.parts)
    }


def assert_refused(project: Project, line: str, *arguments: str, **more: str) -> None:
    """It fails, says so in one line, and leaves everything as it was."""
    before = state(project.path)
    process = update(project, *arguments, **more)
    assert process.returncode
    assert state(project.path) == before
    [said] = process.stderr.splitlines()
    assert line in said
    assert process.stdout == ""


SPARSE = ("git", "sparse-checkout", "set", "--cone", "samples")

# What can go wrong.


def test_a_moved_template_changes_nothing(project: Project, origin: Origin) -> None:
    origin.folder.rename(origin.folder.with_name("moved"))
    assert_refused(
        project, "template: is not a folder here; write the template's URL or its absolute path"
    )


@pytest.mark.slow
def test_a_template_that_is_no_repository_changes_nothing(project: Project, origin: Origin) -> None:
    shutil.rmtree(origin.folder / ".git")
    assert_refused(project, "template: git says: repository ")


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (".", "is not a template with the version v1.0.0"),
        pytest.param("./template", "is not a folder here", marks=pytest.mark.slow),
    ],
)
def test_a_relative_path_that_leads_elsewhere_changes_nothing(
    project: Project, path: str, what: str
) -> None:
    """As Copier records it of a copy that was made in the template's own folder."""
    answers = project / ".copier-answers.yml"
    lines = answers.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("_src_path")]
    answers.write_text("\n".join([*kept, f"_src_path: {path}"]))
    commit(project.path)
    instead = "write the template's URL or its absolute path, and commit"
    assert_refused(project, f".copier-answers.yml: _src_path {path}: {what}; {instead}")


def test_a_tag_that_is_no_version_is_named(project: Project, origin: Origin) -> None:
    origin.release("v1.0.0-team.1", **NEW)
    answers = project / ".copier-answers.yml"
    answers.write_text(answers.read_text().replace("v1.0.0", "v1.0.0-team.1"))
    commit(project.path)
    what = "_commit v1.0.0-team.1 is not a version; tag the template vX.Y.Z+team.N, write that, and commit"
    assert_refused(project, f".copier-answers.yml: {what}")


@pytest.mark.slow
def test_a_template_that_is_not_reached_changes_nothing(project: Project) -> None:
    answers = project / ".copier-answers.yml"
    answers.write_text("_commit: v1.0.0\n_src_path: https://template.invalid/t.git\nowned: []\n")
    commit(project.path)
    assert_refused(project, "_src_path https://template.invalid/t.git: git says: unable to access")


def test_a_refusal_changes_nothing(project: Project, origin: Origin) -> None:
    """Also one that comes late, when Copier has written files."""
    origin.release("v1.1.0", **NEW, **{"zz.jinja": "{{ {}['zz: refused'] }}"})
    assert_refused(project, "zz")


@pytest.mark.slow
def test_a_version_behind_the_projects_is_explained(project: Project, origin: Origin) -> None:
    origin.release("", **NEW)
    succeed(update(project, "--vcs-ref=HEAD"))
    commit(project.path)
    assert_refused(project, "is newer than the template's newest version; wait for the next")


def test_uncommitted_changes_are_refused_before_anything_is_made(project: Project) -> None:
    (project / "tools/one.py").write_text("mine\n")
    assert_refused(project, "tools/one.py: is not committed; run: git add --all && git commit")
    (project / "untracked").write_text("mine\n")
    assert_refused(project, "is not committed")


def test_a_project_without_a_commit_is_told_to_make_one(project: Project) -> None:
    shutil.rmtree(project / ".git")
    assert_refused(project, "the project is not in a git repository; run: git init")
    succeed(run("git", "init", "-q", cwd=project.path))
    assert_refused(project, "is not committed; run: git add --all && git commit")
    succeed(run("git", "add", "--all", cwd=project.path))
    assert_refused(project, "is not committed; run: git add --all && git commit")


def test_git_is_named_where_it_is_missing(project: Project) -> None:
    assert_refused(project, "git: is not found; install it", PATH="/nowhere")


def limited(size: int) -> Callable[[], None]:
    """For a process that can't write more than that into a file, as where a disk is full."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, 2000])
def test_a_disk_that_is_full_for_temporary_files_changes_nothing(
    project: Project, origin: Origin, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)  # it would write to the disk
    origin.release("v1.1.0", **NEW)
    before = state(project.path)
    process = subprocess.Popen(
        COMMAND,
        cwd=project.path,
        env=variables(PYTHONPATH=str(SOURCES)),
        preexec_fn=limited(size),
        stderr=subprocess.PIPE,
        text=True,
    )
    _, said = process.communicate()
    assert process.returncode
    assert state(project.path) == before
    assert len(said.splitlines()) == 1, said


@pytest.mark.slow
def test_files_that_were_brought_go_back_where_another_has_no_place(
    project: Project, origin: Origin
) -> None:
    write(project.path, **{"built/zz/model": "mine, and not in git\n"})
    origin.release("v1.1.0", **NEW, **{"built/zz": "new\n"})
    assert_refused(project, "built/zz: is a folder, and a new file has that name; move it")


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 8192])
def test_a_disk_that_is_full_for_the_project_changes_nothing(
    origin: Origin, project: Project, small_disk: Path, left: int
) -> None:
    """Some of the new files find room, in some cases."""
    edit(project, "tools/one.py")
    origin.release("v1.1.0", **NEW | CONFLICT)
    project = Project(Path(shutil.copytree(project.path, small_disk / "p")))
    succeed(run("git", "status", cwd=project.path))
    room = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes(room.f_bavail * room.f_frsize - left))
    assert_refused(project, "No space left on device; make room there and in ")


@pytest.mark.slow
def test_an_interruption_at_any_time_is_all_or_nothing(
    project: Project, origin: Origin, tmp_path: Path
) -> None:
    """Ctrl-C: a signal to the command and all that it has started."""
    edit(project, "tools/one.py")
    origin.release("v1.1.0", **NEW | CONFLICT)
    whole = Project(Path(shutil.copytree(project.path, tmp_path / "whole")))
    start = time.monotonic()
    assert update(whole).returncode == 1
    takes = time.monotonic() - start
    without_index = {name: data for name, data in state(whole.path).items() if name != ".git/index"}
    chosen = random.Random(0)
    done, not_done = 0, 0
    for number in range(9):
        copy = Project(Path(shutil.copytree(project.path, tmp_path / f"copy-{number}")))
        succeed(run("git", "status", cwd=copy.path))
        before = state(copy.path)
        process = subprocess.Popen(
            COMMAND,
            cwd=copy.path,
            env=variables(PYTHONPATH=str(SOURCES)),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if number % 3:
            time.sleep(chosen.uniform(0.1, 1.1) * takes)
        else:  # as the files are brought
            while process.poll() is None and not list(copy.path.glob(f"{PREFIX}*/old-[0-9]*")):
                pass
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        after = state(copy.path)
        if after == before:
            not_done += 1
            assert process.returncode not in (0, 1)
        else:
            done += 1
            after.pop(".git/index")
            assert after == without_index
            assert process.returncode == 1
            assert "tools/one.py: you and the template changed" in said
    assert done
    assert not_done
    assert not list(tmp_path.glob(f"copy-*/{PREFIX}*"))


# What an update does.


@pytest.mark.slow
def test_an_update_says_what_it_has_done(project: Project, origin: Origin) -> None:
    assert succeed(update(project)) == (
        "p: is up to date with pipeline.yml and the template's v1.0.0\n"
    )
    origin.release("v1.1.0", **NEW)
    before = (project / ".git/index").read_bytes()
    assert succeed(update(project)) == (
        "p: v1.0.0 -> v1.1.0, 6 files changed; see `git status` and `git diff`, then `make test`\n"
        "  moved    tools/three.sh -> tools/four/five.sh\n"
        "  changed  .copier-answers.yml\n"
        "  changed  tools/one.py\n"
        "  changed  vendor/requirements.txt\n"
        f"  changed  {WHEEL}\n"
    )
    assert (project / ".git/index").read_bytes() == before
    assert set(project.changes().splitlines()) == {
        " M .copier-answers.yml",
        " M tools/one.py",
        " D tools/three.sh",
        "?? tools/four/",
        " M vendor/requirements.txt",
        f" M {WHEEL}",
    }


def test_an_update_says_what_is_new_and_what_it_applies(project: Project, origin: Origin) -> None:
    old = "# Changelog\n\n## v1.0.0\n\n### Added\n\n- The first.\n\n### Fixed\n\n- Y.\n"
    write(origin.folder, **{"CHANGELOG.md": old})
    origin.release("v1.1.0")
    assert "The first" not in succeed(update(project))
    commit(project.path)
    added = "### Added\n\n- A thing that is new,\n  on two lines.\n\n### Fixed\n\n- Y.\n"
    between = f"## v1.2.0\n\n{added}\n## v1.1.0\n"
    write(origin.folder, **{"CHANGELOG.md": old.replace("## v1.0.0", f"{between}\n## v1.0.0")})
    origin.release("v1.2.0")
    (project / "pipeline.yml").write_text("project_name: q\nsteps: []\n")
    commit(project.path)
    said = succeed(update(project, "--summary=.git/update.md")).splitlines()
    assert said[0].startswith("q: v1.1.0 -> v1.2.0, pipeline.yml is applied, 3 files changed; see")
    news = ["## v1.2.0", "### Added", "- A thing that is new,", "  on two lines."]
    assert said[1:5] == news
    assert said[5].startswith("  changed  ")
    summary = (project / ".git/update.md").read_text()
    assert summary.splitlines()[2:6] == news
    assert said[5] in summary


def test_a_summary_that_can_not_be_written_stops_an_update(
    project: Project, origin: Origin
) -> None:
    origin.release("v1.1.0", **NEW)
    process = update(project, "--summary=none/update.md")
    assert process.stderr == (
        "none/update.md: No such file or directory; the project is as it was\n"
    )
    assert project.changes() == ""


@pytest.mark.slow
def test_a_project_in_a_folder_of_a_repository_is_updated_alone(
    project: Project, origin: Origin, tmp_path: Path
) -> None:
    """Whatever else is changed or staged there, a template may be named from the project."""
    edit(project, "tools/one.py")
    (tmp_path / "all").mkdir()
    shutil.rmtree(project / ".git")
    inner = Project(project.path.rename(tmp_path / "all/ä p"))
    answers = inner / ".copier-answers.yml"
    answers.write_text(answers.read_text().replace(str(origin.folder), "../../template"))
    write(tmp_path / "all", **{"other": "1\n"})
    commit(tmp_path / "all")
    write(tmp_path / "all", **{"other": "2\n", "staged": "3\n"})
    succeed(run("git", "add", "staged", cwd=tmp_path / "all"))
    origin.release("v1.1.0", **NEW | CONFLICT)
    assert update(inner).returncode == 1
    status = succeed(run("git", "-c", "core.quotePath=false", "status", "-s", cwd=tmp_path / "all"))
    assert set(status.splitlines()) == {
        " M other",
        "A  staged",
        ' M "ä p/.copier-answers.yml"',
        ' D "ä p/tools/three.sh"',
        '?? "ä p/tools/four/"',
        ' M "ä p/vendor/requirements.txt"',
        f' M "ä p/{WHEEL}"',
    }
    assert "_src_path: ../../template\n" in answers.read_text()


@pytest.mark.slow
def test_what_an_update_drops_outside_a_sparse_checkout_leaves_the_index(
    project: Project, origin: Origin
) -> None:
    succeed(run(*SPARSE, cwd=project.path))
    assert not (project / "tools").exists()
    origin.release("v1.1.0", **NEW)
    process = update(project)
    succeed(process)
    assert set(project.changes().splitlines()) == {
        " M .copier-answers.yml",
        " M tools/one.py",
        "?? tools/four/",
        " M vendor/requirements.txt",
        f" M {WHEEL}",
    }
    said, _, command = process.stdout.splitlines()[-1].partition("; to commit those too: ")
    assert said == "some are outside your sparse checkout"
    succeed(run("sh", "-c", command, cwd=project.path))
    succeed(run("git", "commit", "-qm", "update", cwd=project.path))
    assert "three.sh" not in succeed(run("git", "ls-files", cwd=project.path))
    assert project.changes() == ""
    lock = project.run(*COMMAND[:-1], "lock", UV="true")
    assert lock.stderr.endswith(
        "project.json: No such file or directory; restore it: git checkout vendor/project.json\n"
    )


@pytest.mark.slow
def test_hooks_and_filters_of_the_owner_do_not_run(
    project: Project, origin: Origin, tmp_path: Path
) -> None:
    hook = f"#!/bin/sh\necho ran >> {tmp_path}/ran\n"
    for name in ("post-checkout", "post-index-change", "pre-commit", "reference-transaction"):
        write(project / ".git/hooks", **{name: hook})
        (project / ".git/hooks" / name).chmod(0o755)
    (project / ".gitattributes").write_text("*.py filter=mine\n")
    succeed(run("git", "-c", "core.hooksPath=/dev/null", "add", "--all", cwd=project.path))
    edit_without_hooks = ("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "mine")
    succeed(run("git", *edit_without_hooks, cwd=project.path))
    config = tmp_path / "gitconfig"
    config.write_text(f'[filter "mine"]\nsmudge = "echo ran >> {tmp_path}/ran; cat"\n')
    origin.release("v1.1.0", **NEW)
    succeed(update(project, GIT_CONFIG_GLOBAL=str(config)))
    assert not (tmp_path / "ran").exists()


THEIRS = "changed the same lines, and yours stay; merge .apply/conflicts/"


def assert_undone(project: Project, before: dict[str, bytes]) -> None:
    succeed(update(project, "--undo"))
    assert managed(project) == before
    assert project.changes() == ""


@pytest.mark.slow
@pytest.mark.parametrize("markers", [False, True])
def test_a_conflict_keeps_the_owners_lines_or_marks_both(
    project: Project, origin: Origin, markers: bool
) -> None:
    edit(project, "tools/one.py")
    (project / "built").mkdir()
    (project / "built/model").write_text("mine, and not in git\n")
    before = managed(project)
    origin.release("v1.1.0", **NEW | CONFLICT)
    process = update(project, *["--markers"] * markers)
    assert process.returncode == 1
    first, *table = process.stdout.splitlines()
    assert first == f"p: v1.0.0 -> v1.1.0, {5 + markers} files changed"
    assert table[0] == "  conflict  tools/one.py"
    assert table[-1] == "To undo the update: make update UNDO=1"
    text = (project / "tools/one.py").read_text()
    other = project / ".apply/conflicts/tools/one.py"
    if markers:
        assert "<<<<<<< yours\nmine, line 3 " in text
        assert text.count("theirs, line 3") == 1
        assert "stand between <<<<<<< and >>>>>>>; choose" in table[-2]
        assert not other.exists()
    else:
        assert text == before["tools/one.py"].decode()
        assert other.read_text() == CONFLICT["tools/one.py"]
        assert f"tools/one.py: you and the template {THEIRS}" in table[-2]
    assert_undone(project, before)
    assert not other.exists()


def test_a_conflict_in_the_makefile_leaves_make_alone(project: Project, origin: Origin) -> None:
    edit(project, "Makefile", "made", "mine")
    origin.release("v1.1.0", Makefile=FILES["Makefile"].replace("made", "made anew"))
    process = update(project, "--markers")
    assert process.returncode == 1
    assert succeed(run("make", cwd=project.path)) == "minemade\n"
    assert f"Makefile: you and the template {THEIRS}Makefile into it" in process.stdout


# What an owner wrote.


@pytest.mark.slow
@pytest.mark.parametrize("is_conflict", [False, True])
def test_edits_of_a_renamed_file_move_along(
    project: Project, origin: Origin, is_conflict: bool
) -> None:
    edit(project, "tools/one.py")
    before = managed(project)
    new = CONFLICT["tools/one.py"] if is_conflict else f"{HEAD}{LINES}# new\n"
    gone: dict[str, str | None] = {"tools/one.py": None, "tools/two.py": None}
    origin.release("v1.1.0", **gone | {"src/new.py": new})
    process = update(project)
    assert process.returncode == is_conflict
    row = "conflict  src/new.py" if is_conflict else "moved    tools/one.py -> src/new.py"
    assert row in process.stdout
    text = (project / "src/new.py").read_text()
    assert "mine, line 3 " in text
    assert text.endswith("# new\n") != is_conflict
    assert (project / ".apply/conflicts/src/new.py").exists() == is_conflict
    assert not (project / "tools/one.py").exists()
    assert_undone(project, before)


@pytest.mark.slow
def test_edits_of_a_removed_file_are_kept_out_of_the_way(project: Project, origin: Origin) -> None:
    edit(project, "tools/one.py")
    mine = (project / "tools/one.py").read_text()
    origin.release("v1.1.0", **{"tools/one.py": None, "tools/two.py": None, "other": "# other\n"})
    kept = ".apply/kept/tools/one.py"
    said = succeed(update(project))
    assert said.endswith(f"tools/one.py: had edits of yours, which are kept in {kept}\n")
    assert (project / kept).read_text() == mine
    assert ".apply" not in project.changes()


@pytest.mark.slow
def test_edits_of_a_file_that_is_no_text_stay(origin: Origin, tmp_path: Path) -> None:
    origin.release("v1.0.1", **{"same": "\0old", "changed": "\0old"})
    copier.run_copy(str(origin.folder), tmp_path / "p", defaults=True, quiet=True)
    commit(tmp_path / "p")
    project = Project(tmp_path / "p")
    for name in ("same", "changed"):
        edit(project, name, "old", "mine, not ")
    origin.release("v1.1.0", changed="\0new")
    process = update(project)
    assert process.returncode == 1
    assert f"changed: you and the template {THEIRS}changed" in process.stdout
    assert (project / ".apply/conflicts/changed").read_text() == "\0new"
    assert (project / "changed").read_text() == (project / "same").read_text() == "\0mine, not old"


@pytest.mark.slow
def test_a_file_that_git_ignores_is_kept_where_an_update_needs_its_place(
    project: Project, origin: Origin
) -> None:
    write(project.path, **{"built/model": "mine\n"})
    origin.release("v1.1.0", **{"built/model": "new\n"})
    assert "kept in .apply/kept/built/model" in succeed(update(project))
    assert (project / ".apply/kept/built/model").read_text() == "mine\n"
    assert (project / "built/model").read_text() == "new\n"


# Jinja with one more filter.
JINJA = {f"jinja2/{p.name}": p.read_text() for p in Path(jinja2.__file__).parent.glob("*.py")}
JINJA["jinja2/filters.py"] += 'FILTERS["nine"] = lambda value: 9\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "modules", "files"),
    [("needed-by-rendering", {}, NEW), ("jinja2", JINJA, {"new.jinja": "{{ 0 | nine }}"})],
)
def test_a_version_that_needs_another_or_a_newer_package_gets_it_beside(
    project: Project,
    origin: Origin,
    tmp_path: Path,
    name: str,
    modules: dict[str, str],
    files: dict[str, str | None],
) -> None:
    origin.require(f"{name}>=9 ; extra == 'answers'")
    origin.release("v1.1.0", **files)
    folder = tmp_path / "index" / name
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
    what = f"the new version needs {name}>=9, which this environment lacks: ERROR: No"
    assert_refused(project, what, **index)
    folder.mkdir(parents=True)
    add_wheel(folder.parent, name, "9.1", more=modules)
    (folder / "index.html").unlink()  # its links are for a server
    said = succeed(update(project, **index)).splitlines()
    assert (
        said[-1] == f"requirements.lock: lacks {name}>=9, which the toolkit needs; run: make lock"
    )


@pytest.mark.slow
def test_a_beta_is_taken_only_on_request(project: Project, origin: Origin) -> None:
    origin.release("v1.1.0b1", **NEW)
    assert "is up to date with pipeline.yml and the template's v1.0.0" in succeed(update(project))
    assert "v1.0.0 -> v1.1.0b1" in succeed(update(project, "--prereleases"))
    commit(project.path)
    assert_refused(project, "_commit v1.1.0b1 is newer than the template's newest version; wait")


@pytest.mark.slow
def test_a_wheel_of_another_hash_is_refused(project: Project, origin: Origin) -> None:
    origin.release("v1.1.0", **NEW)
    (origin.folder / "template/vendor/requirements.txt").write_text("another\n")
    commit(origin.folder, "v1.2.0")
    assert_refused(project, "any.whl does not have the hash in requirements.txt beside it")


# What was killed is undone by the next command, before anything else.

UNDONE = "a command that was killed is undone; 6 files are as they were before it\n"
ALL = 5  # moves of files, so that the next one ends the update


@pytest.fixture
def conflicted(project: Project, origin: Origin) -> Project:
    """A project with a conflict in the newest version of its template."""
    edit(project, "tools/one.py")
    origin.release("v1.1.0", **NEW | CONFLICT)
    return project


def kill(project: Project, at: int) -> None:
    """Kill an update at a move of a file. Nothing shows git that it was there but the files that it moved."""
    process = run_broken(project, "update", at=at)
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert list(project.path.glob(f"{PREFIX}*/old-[0-9]*"))
    assert PREFIX not in project.changes()


def undo(project: Project) -> subprocess.CompletedProcess[str]:
    return project.run(sys.executable, "-m", "triton_ensemble.change.stage")


@pytest.mark.parametrize(
    "at", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1, 3, ALL))]
)
def test_files_that_were_moved_go_back(conflicted: Project, at: int) -> None:
    before = managed(conflicted)
    kill(conflicted, at)
    process = undo(conflicted)
    succeed(process)
    assert process.stderr == UNDONE
    assert managed(conflicted) == before
    assert not (conflicted / "tools/four").exists()
    assert conflicted.changes() == ""


@pytest.mark.slow
def test_one_that_had_moved_nothing_says_so(conflicted: Project) -> None:
    killed = run_broken(conflicted, "update", at=99, file="journal.json")
    assert killed.returncode == -signal.SIGKILL
    assert undo(conflicted).stderr == "a command that was killed had changed no file\n"
    assert not list(conflicted.path.glob(f"{PREFIX}*"))


@pytest.mark.slow
def test_the_next_update_goes_on_and_nothing_temporary_is_left(
    conflicted: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    kill(conflicted, 3)
    process = update(conflicted)
    assert [*temporary.iterdir()] == []
    assert process.stderr == UNDONE
    assert "tools/one.py: you and the template changed the same lines" in process.stdout
    assert not list(conflicted.path.glob(f"{PREFIX}*"))


@pytest.mark.slow
def test_what_was_changed_since_is_left_alone(conflicted: Project) -> None:
    kill(conflicted, ALL)
    (conflicted / ".copier-answers.yml").write_text("mine\n")
    process = update(conflicted)
    assert process.returncode
    [line] = process.stderr.splitlines()
    assert line.startswith(
        ".copier-answers.yml: was changed since a command that was killed; `git r"
    )
    assert (conflicted / ".copier-answers.yml").read_text() == "mine\n"
    succeed(
        run(
            "git",
            "restore",
            "--source=HEAD",
            "--staged",
            ".copier-answers.yml",
            cwd=conflicted.path,
        )
    )
    succeed(run("git", "restore", ".copier-answers.yml", cwd=conflicted.path))
    succeed(undo(conflicted))
    assert conflicted.changes() == ""


@pytest.mark.slow
def test_the_way_back_is_one_too(conflicted: Project) -> None:
    before = managed(conflicted)
    kill(conflicted, ALL)
    succeed(
        run("git", "restore", "--source=HEAD", "--staged", "--worktree", ".", cwd=conflicted.path)
    )
    succeed(run("git", "clean", "-fd", ".", cwd=conflicted.path))
    succeed(undo(conflicted))
    assert managed(conflicted) == before


@pytest.mark.slow
def test_one_that_runs_is_not_undone(conflicted: Project) -> None:
    """Its journal is locked."""
    stopped = break_off(1, signal.SIGSTOP)
    process = subprocess.Popen(COMMAND, cwd=conflicted.path, env=stopped)
    while not (tuple(conflicted.path.glob(f"{PREFIX}*/old-[0-9]*"))):
        assert process.poll() is None
    second = update(conflicted)
    process.kill()
    process.wait()
    assert second.returncode
    assert second.stderr == "another command changes this project; wait for its end\n"
