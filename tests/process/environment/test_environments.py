"""The environment of a project: made by uv if the machine has it, else by venv and pip, of a Python that fits."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from delivery_support import environment
from package_index import add_wheel, serve_index
from support import ROOT, SOURCES, UV, VENV, Project, mounted, run, succeed

from triton_ensemble.launch import PYTHONS

NO_PYTHON = (
    "Python 3.10, 3.11 or 3.12 was not found. Install uv (https://docs.astral.sh/uv), which installs one, or name one: "
    "make PYTHON=/path/to/python3.12\n"
)
FITS = "import sys; print((3, 10) <= sys.version_info < (3, 13))"
# Starts the wheel as Python 3.14 would, and fits nowhere.
UNFIT = f"""#!/bin/sh
[ "$1" = -c ] && exit 1
exec {sys.executable} -c "
import runpy, sys
sys.argv, sys.executable = sys.argv[1:], '$0'
runpy.run_path(sys.argv[0], run_name='__main__')" "$@"
"""
# In the place of uv: it makes an environment that borrows this repository's packages, and notes what it is asked for.
FAKE_UV = f"""#!/bin/sh
echo "$UV_DEFAULT_INDEX $*" >> $SAID
[ "$1" = venv ] || exit 0
cd "$HELPERS" && exec {sys.executable} -c '
import sys; from delivery_support import borrow; borrow(sys.argv[1])' "$OLDPWD/.venv"
"""


@pytest.fixture
def uv() -> str:
    if not UV:
        pytest.skip("neither PATH nor .venv-uv has uv")
    return UV


@pytest.fixture
def project(default_project: Project, tmp_path: Path) -> Project:
    return Project(Path(shutil.copytree(default_project.path, tmp_path / "p")))


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a PATH whose Pythons do not fit. A fitting one comes later, under a name that make tries first."""
    for folder in ("unfit", "other"):
        (tmp_path / folder).mkdir()
    for name in PYTHONS:
        (tmp_path / "unfit" / name).write_text(UNFIT)
        (tmp_path / "unfit" / name).chmod(0o755)
    (tmp_path / "other/python3").symlink_to(os.path.realpath(sys.executable))
    return f"{tmp_path}/unfit:{tmp_path}/other:/usr/bin:/bin"


def line(process: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a failed command of make printed on stderr."""
    assert process.returncode == 2, process
    [said, _] = process.stderr.splitlines()  # and make's own
    return said + "\n"


def test_uv_finds_a_python_behind_one_that_does_not_fit(
    project: Project, uv: str, path: str
) -> None:
    succeed(project.run("make", "lock", "ARGS=--help", UV=uv, PATH=path))
    assert succeed(project.run(".venv/bin/python", "-c", FITS)) == "True\n"


def test_a_line_says_that_the_wheel_is_gone(project: Project) -> None:
    shutil.move(next((project / "vendor").glob("*.whl")), project.path.parent)
    said = project.run("make", "check")
    line = "vendor/: lacks triton_ensemble-*.whl; restore it: git checkout vendor"
    assert re.fullmatch(rf"Makefile:\d+: \*\*\* {re.escape(line)}\.  Stop\.\n", said.stderr)


def test_a_folder_named_as_a_command_is_not_up_to_date(project: Project) -> None:
    """Neither that of an extra which the project lacks, nor a folder of each project."""
    (project / "gateway").mkdir(exist_ok=True)
    lacking = "pipeline.yml: extras does not have gateway; add it, and run the command again"
    near = "tests: no such command; did you mean test? make lists them"
    for word, line in {"gateway": lacking, "tests": near}.items():
        said = project.make(word)
        assert said.returncode
        assert line in said.stderr.splitlines()


def test_a_line_says_how_to_get_a_python(project: Project, path: str) -> None:
    assert line(project.run("make", "infer", PATH=path)) == NO_PYTHON
    assert not (project / ".venv").exists()


@pytest.mark.parametrize("maker", ["uv", "venv"])
def test_a_named_python_has_to_fit(project: Project, path: str, maker: str) -> None:
    """It is asked before anything is made."""
    unfit = path.split(":")[0] + "/python3"
    done = project.run("make", f"PYTHON={unfit}", "infer", UV="uv" * (maker == "uv"))
    assert line(done) == (
        f"{unfit} is not Python 3.10, 3.11 or 3.12; name one: make PYTHON=/path/to/python3.12\n"
    )


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Serve a package index of one wheel, `only-here`. Yield its address, and the line of a lock."""
    folder = tmp_path_factory.mktemp("index")
    digest = add_wheel(folder, "only-here", "1.0")
    with serve_index(folder) as address:
        yield address, f"only-here==1.0 --hash=sha256:{digest}\n"


def install(project: Project, lock: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Install a lock of one package, which lacks what the toolkit needs."""
    (project / "requirements.lock").write_text(lock)
    (project / "vendor/project.json").write_text('{"packages": {}, "gpu_count": 0}')
    more |= {"PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": "", "PIP_RETRIES": "0"}
    return project.run("make", "setup", f"PYTHON={sys.executable}", **more)


def has_package(project: Project) -> bool:
    return project.run(".venv/bin/python", "-c", "import only_here").returncode == 0


def test_uv_takes_the_index_that_pip_is_told_of(
    project: Project, uv: str, index: tuple[str, str], tmp_path: Path
) -> None:
    """By PIP_INDEX_URL, or by a file of settings."""
    address, lock = index
    install(project, lock, UV=uv, PIP_INDEX_URL=address)
    assert has_package(project)
    assert not (project / ".venv/bin/pip").exists()
    shutil.rmtree(project / ".venv")
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = {address}\n")
    settings = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "UV_NO_CACHE": "1"}
    install(project, lock, UV=uv, **settings)
    assert has_package(project)


@pytest.mark.slow
@pytest.mark.parametrize("is_uvs", [True, False])
def test_venv_and_pip_without_uv(
    project: Project, index: tuple[str, str], uv: str, is_uvs: bool
) -> None:
    """Also in an environment that uv has made, which has no pip at first."""
    address, lock = index
    if is_uvs:
        succeed(project.run("make", "lock", "ARGS=--help", UV=uv))
    install(project, lock, PIP_INDEX_URL=address)
    assert has_package(project)
    assert (project / ".venv/bin/pip").exists()


def test_uv_refuses_a_package_with_another_hash(
    project: Project, uv: str, index: tuple[str, str]
) -> None:
    address, lock = index
    wrong = lock[:-5] + "0000\n"
    done = install(project, wrong, UV=uv, PIP_INDEX_URL=address, UV_NO_CACHE="1")
    assert done.returncode
    assert "Hash mismatch" in done.stderr
    assert not has_package(project)


NOWHERE = "http://127.0.0.1:9"
ELSEWHERE = "https://pypi.example.com/simple"


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"UV_DEFAULT_INDEX": NOWHERE}, "check the network, and HTTPS_PROXY if you have a proxy"),
        ({"UV_DEFAULT_INDEX": ELSEWHERE, "HTTPS_PROXY": NOWHERE}, "HTTPS_PROXY"),
    ],
)
def test_a_line_says_that_no_index_answers(
    project: Project, uv: str, index: tuple[str, str], settings: dict[str, str], remedy: str
) -> None:
    settings |= {"UV_NO_CACHE": "1", "UV_HTTP_RETRIES": "0"}
    said = line(install(project, index[1], UV=uv, **settings))
    assert said.startswith("requirements.lock: ")
    assert remedy in said.partition("; ")[2]


def test_a_line_says_that_the_disk_is_full(project: Project, uv: str, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "-t", "tmpfs", "-o", "size=64k,nr_inodes=8", "none"):
        said = line(project.run("make", "setup", f"VENV={disk}/venv", UV=uv))
    assert "make room there, and run it again" in said


@pytest.fixture
def fake(project: Project, tmp_path: Path) -> Callable[..., list[str]]:
    """Return a function that runs make with a uv that only notes what it is asked for, and returns that."""
    (tmp_path / "uv").write_text(FAKE_UV)
    (tmp_path / "uv").chmod(0o755)
    helpers = str(ROOT / "tests" / "helpers")

    def make(*words: str, **more: str) -> list[str]:
        said = tmp_path / "said"
        said.write_text("")
        uv = {
            "UV": f"{tmp_path}/uv",
            "SAID": str(said),
            "HELPERS": helpers,
            "PIP_INDEX_URL": "here",
        }
        succeed(run("make", *words, cwd=project.path, PYTHONPATH=str(SOURCES), **uv, **more))
        return said.read_text().splitlines()

    return make


def test_an_environment_is_renewed_by_what_files_say(
    project: Project, fake: Callable[..., list[str]]
) -> None:
    """And not by when they were written. All that installs asks one index."""
    made, *installed = fake("setup")
    assert made.startswith(" venv --quiet --allow-existing --python ")
    assert [line[:16] for line in installed] == ["here pip install"] * 2
    lock, hashes = project / "requirements.lock", project / "vendor/requirements.txt"
    for path in (lock, hashes, *(project / "vendor").glob("*.whl")):
        os.utime(path)
    assert fake("setup") == []
    lock.write_text(lock.read_text() + "# another\n")
    [packages] = fake("setup")
    assert packages.endswith("--requirement requirements.lock")
    assert fake("check") == []
    hashes.write_text(hashes.read_text() + "# another\n")
    [toolkit] = fake("check")
    assert "--force-reinstall --no-deps --require-hashes" in toolkit
    assert fake("lint", "ARGS=--help")[0].endswith("--requirement requirements-dev.lock")
    assert fake("setup", "TORCH_INDEX=there")[0].count("--extra-index-url there") == 1


def test_a_broken_environment_is_made_again(
    project: Project, fake: Callable[..., list[str]], tmp_path: Path
) -> None:
    """Its Python is gone, as after an upgrade of the system."""
    fake("setup")
    (project / ".venv/bin/python").unlink()
    (project / ".venv/bin/python").symlink_to(tmp_path / "gone")
    assert len(fake("check")) == 3


def test_of_several_commands_one_sets_up(project: Project, fake: Callable[..., list[str]]) -> None:
    fake("setup")
    hashes = project / "vendor/requirements.txt"
    hashes.write_text(hashes.read_text() + "# another\n")
    with ThreadPoolExecutor() as pool:
        installed = [*pool.map(lambda _: fake("check"), range(3))]
    assert max(map(len, installed)) == 1


def test_the_owner_s_environment_is_taken_if_its_python_fits(
    project: Project, fake: Callable[..., list[str]], path: str
) -> None:
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/bin/python").symlink_to(path.split(":")[0] + "/python3")
    line = ".venv/bin/python is not Python 3.10, 3.11 or 3.12; remove .venv, or name another folder as VENV"
    assert line in project.run("make", "setup", UV="uv").stderr.splitlines()
    shutil.rmtree(project / ".venv")
    environment(project)
    [said] = fake("setup")
    assert "--force-reinstall" in said
    (project / ".venv/bin/python").unlink()
    line = ".venv: its Python has gone, or is another one; remove .venv, or name another folder as VENV"
    assert line in project.run("make", "setup", UV="uv").stderr.splitlines()
    assert (project / ".venv/bin").exists()


def test_the_lock_is_renewed_by_uv(project: Project, fake: Callable[..., list[str]]) -> None:
    """Its own Python may be any, so it is told which."""
    _, *compiled = fake("lock")
    assert [said.partition(" --quiet")[0] for said in compiled] == ["here pip compile"] * 2
    assert all(f"--python {project.path}/.venv/bin/python" in said for said in compiled)


CLI = (ROOT / "docs/cli.md").read_text().partition("The other variables")[0]
LISTED = re.findall(r"`([A-Z_]+)`", CLI)
# In the place of a Python: what the toolkit makes of variables.
SHOW = f"""#!/bin/sh
PYTHONPATH={SOURCES} exec {sys.executable} -c '
import os, sys; from triton_ensemble.targets import list_options
print(list_options(sys.argv[2:], os.environ), os.environ.get("STAGE"))' "$@"
"""


def show(folder: Path, program: str) -> str:
    """Write a program that make takes for a Python. Return the variable that names it."""
    path = folder / "show"
    path.write_text(program)
    path.chmod(0o755)
    return f"PYTHON={path}"


@pytest.mark.parametrize("name", [name for name in LISTED if name != "PYTHON"])
def test_a_variable_of_the_shell_counts_if_the_page_lists_it(
    project: Project, tmp_path: Path, name: str
) -> None:
    python = show(tmp_path, f"#!/bin/sh\nprintenv {name}\n")
    assert succeed(project.run("make", "infer", python, **{name: "shell"})) == "shell\n"
    assert succeed(project.run("make", "infer", python, f"{name}=here")) == "here\n"


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("infer", ["ENV"]),
        ("publish", ["NAME", "VERSION", "FILE", "FROM"]),
        ("promote", ["TO", "FROM"]),
        ("step", ["NAME", "DEBUG"]),
        ("tune", ["TIME"]),
    ],
)
def test_other_variables_count_in_make_s_command_line(
    project: Project, tmp_path: Path, command: str, names: list[str]
) -> None:
    """A shell may have them for another purpose."""
    words = ("make", command, show(tmp_path, SHOW))
    usual = succeed(project.run(*words))
    assert succeed(project.run(*words, **dict.fromkeys(names, "shell"))) == usual
    for name in names:
        assert succeed(project.run(*words, f"{name}=a b")) != usual


def test_the_wheel_is_not_on_the_path_of_what_runs_inside(project: Project, tmp_path: Path) -> None:
    """Triton's processes would import from it."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python"
    python.write_text('#!/bin/sh\nprintenv PYTHONPATH || echo none, "$@"\n')
    python.chmod(0o755)
    [wheel] = (project / "vendor").glob("*.whl")
    command = (sys.executable, f"vendor/{wheel.name}/triton_ensemble", "infer")
    printed = succeed(run(*command, cwd=project.path, VENV=str(tmp_path), SETUP=""))
    assert printed == "none, -m triton_ensemble infer\n"


def test_the_wheel_runs_a_command_without_make(project: Project) -> None:
    [wheel] = (project / "vendor").glob("*.whl")
    command = (sys.executable, f"vendor/{wheel.name}/triton_ensemble", "render", "--help")
    printed = succeed(run(*command, cwd=project.path, VENV=str(VENV), SETUP=""))
    assert printed.startswith("usage: triton-ensemble render ")


def test_make_test_begins_with_what_ruff_finds(project: Project) -> None:
    """Before a model file is made or a Triton is started, which takes minutes in some projects."""
    with (project / "steps/label.py").open("a") as file:
        file.write("x  =  1\n")
    done = project.make("test")
    assert done.returncode
    assert done.stdout.startswith("unformatted: ")
    assert done.stderr.splitlines()[0] == "Some files are not formatted; run: make format"
    assert not list((project / "model_repository").rglob("*.onnx"))
