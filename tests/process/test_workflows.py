"""The workflows of generated projects and of this repository: of the right form, for the right machines, and run where that can be done here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import copier
import pytest
from delivery_support import borrow
from docs_blocks import read_blocks
from support import (
    COPIER,
    MATRIX,
    ROOT,
    SOURCES,
    Generate,
    Project,
    call,
    run,
    step,
    succeed,
    validate,
)
from wheels import pack_wheel
from workflows_support import (
    OWN,
    of_ci,  # noqa: F401
    read,
    workflows,
)

KINDS = [(ci, gpu_count) for ci in ("github", "gitlab", "none") for gpu_count in (0, 2)]


def validate_each(*paths: Path) -> None:
    """Check workflows of GitHub and of GitLab, each by its schema."""
    if github := [path for path in paths if path.parent.name == "workflows"]:
        validate("github-workflows", *github)
    if gitlab := [path for path in paths if ".gitlab" in str(path)]:
        validate("gitlab-ci", *gitlab, options=("--data-transform", "gitlab-ci"))


@pytest.mark.parametrize("extras", [[], ["gateway", "kubernetes", "kserve", "ray"]], ids=len)
@pytest.mark.parametrize(("ci", "gpu_count"), KINDS)
def test_of_the_form_that_the_ci_takes(
    generate: Generate, ci: str, gpu_count: int, extras: list[str]
) -> None:
    project = generate(ci=ci, gpu_count=gpu_count, extras=extras)
    assert (
        workflows(project)
        == {
            "github": [".github/workflows/ci.yml", ".github/workflows/update.yml"],
            "gitlab": [".gitlab-ci.yml"],
            "none": [],
        }[ci]
    )
    validate_each(*(project / name for name in workflows(project)))
    for text in ((project / name).read_text() for name in workflows(project)):
        assert text.startswith("# Managed by ")
        assert not re.search(r"\n\n\n|[ \t]\n|\n\n\Z|(?<!\$)\{\{|\{%", text)


def test_our_own_have_the_form_that_the_ci_takes() -> None:
    validate_each(*OWN, ROOT / ".gitlab/update-project.yml")


@pytest.mark.parametrize(("kind", "names"), [("forms", ["bug", "wish"]), ("config", ["config"])])
def test_templates_of_issues_have_the_form_that_github_takes(kind: str, names: list[str]) -> None:
    files = (ROOT / f".github/ISSUE_TEMPLATE/{name}.yml" for name in names)
    validate(f"github-issue-{kind}", *files)


def test_a_workflow_that_is_wrong_is_found(tmp_path: Path) -> None:
    (tmp_path / "workflows").mkdir()
    path = tmp_path / "workflows/ci.yml"
    path.write_text("on: push\njobs: {a: {runs-on: x, step: []}}\n")
    with pytest.raises(AssertionError, match="step"):
        validate_each(path)


def test_engines_are_built_where_the_gpu_is_before_the_image(generate: Generate) -> None:
    net = step("net", {"x": "INPUT"}, {"y": "OUTPUT"}, "tensorrt", trtexec=True)
    tensors = {"INPUT": "FP32[4]", "OUTPUT": "FP32[4]"}
    for ci, jobs in {"github": ("gpu", "image"), "gitlab": ("gpu", "publish")}.items():
        project = generate(ci=ci, gpu_count=1, tensors=tensors, steps=[net])
        validate_each(*(project / name for name in workflows(project)))
        name = workflows(project)[0]
        for job in jobs:
            built = read(project / name) if ci == "gitlab" else read(project / name)["jobs"]
            text = str(built[job])
            assert (
                0
                < text.index("make engines")
                < text.index("ci build" if job != "gpu" else "make image")
            )
            assert "make repository" not in text


# A program that CI calls: it notes what it is asked, and what its variables are.
ASKED = """#!/bin/sh
echo "${0##*/} $*" >> "$ASKED"
"""
DOCKER = (
    ASKED
    + """while [ $# != 0 ] && [ "$1" != --metadata-file ]; do shift; done
[ $# = 0 ] || echo '{"containerimage.digest": "sha256:'$(printf %s "$2" | sha256sum | cut -c -64)'"}' > "$2"
"""
)
MAKE = (
    ASKED
    + """[ "$1" != up ] || echo http://127.0.0.1:49153
echo "$HTTP_PORT $TRITON_URL $(cat "$AWS_WEB_IDENTITY_TOKEN_FILE" 2>/dev/null)" >> "$ASKED"
[ "$1" != "$FAILS" ]
"""
)
REPOSITORY = "r.example.org/me/p"
NAMES = ["IMAGE", "GATEWAY_IMAGE", "MOUNTED_IMAGE", "MODELS_IMAGE", "RAY_IMAGE"]


def write_programs(folder: Path, **programs: str) -> None:
    """Write programs into a folder, and the project's `triton-ensemble` where a job has it."""
    command = f'#!/bin/sh\nPYTHONPATH={SOURCES} exec {sys.executable} -m triton_ensemble "$@"\n'
    for name, text in {**programs, ".venv/bin/triton-ensemble": command}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def run_ci(
    script: str, folder: Path, project: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run commands of a job in a project, with the programs of a folder first in PATH."""
    variables = {"ASKED": str(folder / "asked"), "RUNNER_TEMP": str(folder)} | variables
    path = f"{folder}:/usr/bin:/bin"
    return run("bash", "-ec", script, cwd=project, PATH=path, **variables)


def read_asked(folder: Path) -> list[str]:
    """Return what the programs in a folder were asked."""
    return (folder / "asked").read_text().splitlines()


def script_of(project: Project, job: str, *words: str) -> str:
    """Return the commands of a job that have one of some words in them."""
    if (project / ".gitlab-ci.yml").exists():
        lines = read(project / ".gitlab-ci.yml")[job]["script"]
    else:
        steps = read(project / ".github/workflows/ci.yml")["jobs"][job]["steps"]
        lines = [step["run"] for step in steps if "run" in step]
    return "\n".join(line for line in lines if not words or any(word in line for word in words))


@pytest.mark.parametrize(
    ("extras", "images", "built"),
    [
        ([], "", NAMES[:1]),
        (["gateway", "kubernetes"], "", NAMES[:2]),
        (["gateway", "kubernetes"], "models, mounted", NAMES[:4]),
        (["kserve", "ray"], "", ["IMAGE", "MOUNTED_IMAGE", "RAY_IMAGE"]),
    ],
)
@pytest.mark.parametrize("ci", ["github", "gitlab"])
def test_the_images_are_those_that_were_chosen(
    generate: Generate, tmp_path: Path, ci: str, extras: list[str], images: str, built: list[str]
) -> None:
    """A machine of GitLab has no environment, and a name has small letters, as Docker takes no others."""
    project = generate(ci=ci, gpu_count=0, extras=extras)
    write_programs(tmp_path, docker=DOCKER, apk="#!/bin/sh\n", sudo="#!/bin/sh\n")
    write_programs(project.path)
    job = {"github": "image", "gitlab": "publish"}[ci]
    script = script_of(project, job, "PYTHONPATH=", " ci build", "./images.env", " ci tag")
    variables = {"GITHUB_REPOSITORY": "Me/p", "GITHUB_ENV": str(tmp_path / "env")}
    if ci == "gitlab":
        variables = {"CI_REGISTRY_IMAGE": REPOSITORY, "CI_COMMIT_TAG": "v1"}
    else:
        script = script.replace("ghcr.io", "r.example.org").replace(
            ".venv/bin/triton-ensemble ci tag",
            'set -a; . "$GITHUB_ENV"; GITHUB_REF_NAME=v1 .venv/bin/triton-ensemble ci tag',
        )
    script = script.replace(" --room", "")
    process = run_ci(script, tmp_path, project.path, IMAGES=images, **variables)
    succeed(process)
    asked = "\n".join(read_asked(tmp_path))
    folder = project.path if ci == "gitlab" else tmp_path
    digests = dict(
        line.split("=")
        for line in (folder / ("images.env" if ci == "gitlab" else "env")).read_text().splitlines()
    )
    assert list(digests) == built
    suffixes = dict(zip(NAMES, ["", "-gateway", "-mounted", "-models", "-ray"], strict=True))
    options = {"--sbom=true", "--provenance=mode=max", "--cache-from", "--cache-to"}
    builds = re.findall("^docker buildx build .*", asked, re.M)
    for name, command in zip(built, builds, strict=True):
        assert digests[name].startswith(f"{REPOSITORY}{suffixes[name]}@sha256:")
        assert f"--tag {REPOSITORY}{suffixes[name]} " in command
        assert options <= {*command.split()}
        assert "push-by-digest=true" in command
        tagged = f"{REPOSITORY}{suffixes[name]}:v1 {digests[name]}"
        assert f"docker buildx imagetools create --tag {tagged}" in asked
    if "ray" in extras:
        assert f"--build-arg IMAGE={digests['IMAGE']} " in builds[-1]


def test_an_image_that_nobody_knows_is_refused(generate: Generate, tmp_path: Path) -> None:
    project = generate()
    process = call(project, "ci", "build", "r.example.org/p", IMAGES="mounted,modles")
    line = "IMAGES: there is no image modles; write mounted, models or both\n"
    assert (process.status, process.err) == (2, line)


@pytest.mark.parametrize(("role", "token"), [("", ""), ("arn:aws:iam::1:role/p", "T.1")])
@pytest.mark.parametrize("ci", ["github", "gitlab"])
def test_models_are_pushed_with_the_token_of_a_role_or_with_keys(
    generate: Generate, tmp_path: Path, ci: str, role: str, token: str
) -> None:
    project = generate(ci=ci, gpu_count=0, extras=["kserve"])
    write_programs(tmp_path, make=MAKE)
    write_programs(project.path)
    (tmp_path / "answer?&audience=sts.amazonaws.com").write_text('{"count":1,"value":"T.1"}')
    of_ci = {"AWS_TOKEN": "T.1"}
    if ci == "github":
        # The file takes the place of GitHub's service.
        url = f"file://{tmp_path}/answer?"
        of_ci = {"ACTIONS_ID_TOKEN_REQUEST_URL": url, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "x"}
    script = script_of(project, {"github": "image", "gitlab": "deploy"}[ci], " ci push")
    variables = {"MODEL_STORE": "s3://b/p", "AWS_ROLE_ARN": role, **of_ci}
    succeed(run_ci(script, tmp_path, project.path, **variables))
    command, given = read_asked(tmp_path)
    assert command == "make push TO=s3://b/p"
    assert given.strip() == token


@pytest.mark.parametrize("fails", ["nothing", "up", "bench"])
def test_the_container_ends_however_its_bench_ends(
    generate: Generate, tmp_path: Path, fails: str
) -> None:
    project = generate(ci="github", gpu_count=2)
    write_programs(tmp_path, make=MAKE)
    write_programs(project.path)
    script = script_of(project, "gpu", " ci bench")
    process = run_ci(script, tmp_path, project.path, FAILS=fails)
    bench = [] if fails == "up" else ["make bench", " http://127.0.0.1:49153 "]
    asked = ["make up", "0  ", *bench, "make down ARGS=--volumes", "  "]
    assert read_asked(tmp_path) == asked
    assert process.returncode == (fails != "nothing")
    assert "Traceback" not in process.stderr


@pytest.mark.parametrize(("ci", "gpu_count"), KINDS[:4])
def test_a_job_has_an_environment_before_it_runs_a_command(
    generate: Generate, ci: str, gpu_count: int
) -> None:
    project = generate(ci=ci, gpu_count=gpu_count, extras=["gateway", "kubernetes"])
    content = read(project / workflows(project)[0])
    jobs = content["jobs"] if ci == "github" else content
    for job in (each for each in jobs if ".venv/bin/triton-ensemble" in str(jobs[each])):
        first = script_of(project, job, ".venv/bin/triton-ensemble", "make ").splitlines()[0]
        assert first.startswith("make "), job


@pytest.mark.parametrize("without", ["", "MOUNTED_IMAGE"])
def test_each_image_of_the_server_is_tested_and_all_are_signed(
    tmp_path: Path, without: str
) -> None:
    write_programs(tmp_path, make=MAKE, cosign=ASKED)
    digests = {name: f"r/{name.lower()}@sha256:1" for name in NAMES if name != without}
    script = "\n".join(f".venv/bin/triton-ensemble ci {action}" for action in ("test", "sign"))
    succeed(run_ci(script, tmp_path, tmp_path, **digests))
    *tests, signs = (line for line in read_asked(tmp_path) if line.strip())
    assert tests == ["make test-docker"] * (1 if without else 2)
    assert signs == f"cosign sign --yes {' '.join(digests.values())}"
    process = run_ci(".venv/bin/triton-ensemble ci tag", tmp_path, tmp_path)
    line = "IMAGE has no digest; run `triton-ensemble ci build` before\n"
    assert (process.returncode, process.stderr) == (2, line)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["test", "gpu"])
def test_our_own_try_an_example(name: str, git_template: Path, tmp_path: Path) -> None:
    """The command that generates it runs as it stands."""
    job = read(ROOT / f".github/workflows/{name}.yml")["jobs"]["example"]
    [command] = [step["run"] for step in job["steps"] if "copier copy" in step.get("run", "")]
    command = command.replace('"$EXAMPLE"', "my-own")
    words = [str(tmp_path / "p") if word == "build/example" else word for word in command.split()]
    succeed(run(str(COPIER), *words[1:], cwd=git_template))
    project = Project(tmp_path / "p")
    answers = read(project / "pipeline.yml")
    assert (answers["project_name"], answers["gpu_count"]) == ("my-pipeline", int(name == "gpu"))


def newest_image(folder: Path, published: str) -> subprocess.CompletedProcess[str]:
    """Run the job that looks for the newest Triton, where these images exist."""
    [step] = read(ROOT / ".github/workflows/gpu.yml")["jobs"]["newest"]["steps"]
    (folder / "docker").write_text(f"#!/bin/sh\ncase $3 in {published}) ;; *) exit 1 ;; esac\n")
    (folder / "docker").chmod(0o755)
    output = {"GITHUB_OUTPUT": str(folder / "output"), "PATH": f"{folder}:/usr/bin:/bin"}
    return run("bash", "-e", "-c", step["run"], cwd=folder, **output)


def test_a_release_needs_a_new_version_and_its_notes(tmp_path: Path) -> None:
    steps = read(ROOT / ".github/workflows/release.yml")["jobs"]["release"]["steps"]
    [script] = [each["run"] for each in steps if "its notes" in each.get("name", "")]
    for name in ("CHANGELOG.md", "src/triton_ensemble/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def released() -> tuple[int, str]:
        """Return the exit code and the last line."""
        given = {"RUNNER_TEMP": str(tmp_path), "GITHUB_ENV": str(tmp_path / "env")}
        command = ["bash", "-e", "-c", script]
        process = subprocess.run(
            command, cwd=tmp_path, env=os.environ | given, text=True, capture_output=True
        )
        return process.returncode, process.stdout.rpartition("\n")[0].rpartition("\n")[2]

    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.example"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        succeed(run(*git, *command, cwd=tmp_path))
    changelog, toolkit = tmp_path / "CHANGELOG.md", tmp_path / "src/triton_ensemble/__init__.py"
    version = re.findall("^## (v.*)", changelog.read_text(), re.M)[0]
    toolkit.write_text(f'__version__ = "{version[1:]}"\n')  # ours may be one in development
    assert released() == (0, "")
    assert (tmp_path / "env").read_text() == f"VERSION={version}\n"
    notes = (tmp_path / "notes.md").read_text()
    assert "### Update notes" in notes
    assert "\n## " not in notes
    changelog.write_text(changelog.read_text().replace("### Update notes", "### Notes"))
    code, line = released()
    assert (code, line.startswith("CHANGELOG.md: has no update notes")) == (1, True)
    succeed(run(*git, "tag", version, cwd=tmp_path))
    code, line = released()
    assert (code, f"{version} is released; write the next version" in line) == (1, True)


def test_the_newest_image_is_that_of_the_last_months_which_exists(tmp_path: Path) -> None:
    past = datetime.now(tz=timezone.utc).replace(day=15) - timedelta(days=61)  # two months ago
    image = f"nvcr.io/nvidia/tritonserver:{past:%y.%m}-py3"
    succeed(newest_image(tmp_path, f"{image}|*:24.10-py3"))
    assert (tmp_path / "output").read_text() == f"image={image}\n"
    process = newest_image(tmp_path, "*:24.10-py3")
    assert (process.returncode, process.stdout[:9]) == (1, "::error::")


# `make update` of a workflow, in a clone of a project on a server of its own: a bare repository.

BRANCH = "triton-ensemble-template"
MANAGED = "deploy/compose.mounted.yaml"
GH = """#!/bin/sh
echo "$*" >> "$SAID"
case $2 in list) cat "$OPEN" ;; esac
for word; do case $word in *update.md) cp "${word#body=@}" "$SAID.body" ;; esac; done
"""
GIT = """#!/bin/sh
case $1 in push) printf "%s\\n" "$*" >> "$SAID" ;; esac
exec /usr/bin/git "$@"
"""


# What an update brings may do whatever it likes, as this does, which stands in for a package.
BROUGHT = r"""#!/bin/sh
env >> "$SEEN"
for hook in pre-commit post-commit pre-push post-checkout post-index-change; do
  printf '#!/bin/sh\nenv >> "$SEEN"\n' > .git/hooks/$hook
  chmod +x .git/hooks/$hook
done
cp .git/hooks/pre-push .git/monitor
git config core.fsmonitor .git/monitor
"""


class Remote:
    """A project on a server, from a template that has a newer version."""

    def __init__(self, folder: Path, template: Path, ci: str) -> None:
        self.folder, self.ci = folder, ci
        self.template = Path(shutil.copytree(template, folder / "template", symlinks=True))
        copier.run_copy(
            str(self.template), folder / "p", data={"ci": ci}, defaults=True, quiet=True
        )
        self.project = Project(folder / "p")
        self.project.commit()
        self.git("init", "-q", "--bare", "remote.git")
        self.bin = folder / "bin"
        for path, text in (
            (self.bin / "gh", GH),
            (self.bin / "git", GIT),
            (folder / "brought", BROUGHT),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        borrow(folder / "venv")
        (folder / "open").write_text("")

    def git(self, *arguments: str) -> str:
        return succeed(run("git", *arguments, cwd=self.folder))

    def release(self, version: str = "v1.1.0") -> None:
        """Make a new version of the template, which changes a file that all projects have, and the changelog."""
        with (self.template / "template" / MANAGED).open("a") as file:
            file.write(f"# {version}\n")
        changelog = self.template / "CHANGELOG.md"
        changelog.write_text(f"## {version}\n\n- News of {version}.\n\n{changelog.read_text()}")
        pack_wheel(self.template)
        for command in ("add --all", "commit -q -m newer", f"tag {version}"):
            succeed(run("git", *command.split(), cwd=self.template))

    def update(self, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the jobs, each in a fresh clone as shallow as that of the CI. Return the last, with what all printed."""
        printed = ""
        (self.folder / "output").write_text("")
        for script, deep, variables in self.jobs():
            self.clone(*[] if deep else ["--depth=1"])
            process = self.job(script, **variables, **more)
            printed += process.stdout
            if process.returncode:
                break
        process.stdout = printed
        return process

    def clone(self, *options: str) -> None:
        """Push the project to the server, and clone it from there."""
        remote = self.folder / "remote.git"
        self.git("-C", "p", "push", "-q", "--force", str(remote), "HEAD:refs/heads/main")
        shutil.rmtree(self.folder / "clone", ignore_errors=True)
        self.git("clone", "-q", *options, "-b", "main", f"file://{remote}", "clone")

    def job(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "run.sh").write_text(script)
        return run(
            *("bash", "-eo", "pipefail", str(self.folder / "run.sh")),
            cwd=self.folder / "clone",
            PATH=f"{self.bin}:/usr/bin:/bin",
            VENV=str(self.folder / "venv"),
            UV=f"{self.folder}/brought",
            PYTHONPATH=str(SOURCES),
            GIT_CONFIG_GLOBAL=str(self.folder / "gitconfig"),
            SAID=str(self.folder / "said"),
            OPEN=str(self.folder / "open"),
            SEEN=str(self.folder / "seen"),
            BRANCH=BRANCH,
            RUNNER_TEMP=str(self.folder),
            GITHUB_OUTPUT=str(self.folder / "output"),
            HTTPS_PROXY="http://127.0.0.1:9",  # no registry answers
            https_proxy="http://127.0.0.1:9",
            CI_SERVER_PROTOCOL="https",
            CI_SERVER_HOST="git.example.org",
            CI_SERVER_FQDN="git.example.org",
            CI_PROJECT_PATH="me/p",
            CI_DEFAULT_BRANCH="main",
            GITHUB_REPOSITORY="me/p",
            **variables,
        )

    def jobs(self) -> Iterator[tuple[str, bool, dict[str, str]]]:
        """Yield the script of each job, whether it has all history, and its token. Artifacts stay in this folder."""
        if self.ci == "github":
            jobs = read(self.project / ".github/workflows/update.yml")["jobs"]
            for name in ("update", "pull-request"):
                steps = [step for step in jobs[name]["steps"] if "run" in step]
                if name == "update" or "changed=true" in (self.folder / "output").read_text():
                    token = {"GH_TOKEN": "secret"} if name != "update" else {}
                    deep = jobs[name]["steps"][0]["with"].get("fetch-depth") == 0
                    yield "\n".join(f"(\n{step['run']})" for step in steps), deep, token
            return
        jobs = read(self.project / ".gitlab-ci.yml")
        # The server that the job names is this folder.
        url = "https://update:secret@git.example.org/me/p.git"
        option = f"url.{self.folder}/remote.git.insteadOf"
        self.git("config", "--file", str(self.folder / "gitconfig"), option, url)
        self.git("-C", "remote.git", "config", "receive.advertisePushOptions", "true")
        yield "\n".join(jobs["update"]["script"]), False, {}
        paths = jobs["update"]["artifacts"]["paths"]
        for path in paths:
            shutil.copy(self.folder / "clone" / path, self.folder)
        artifacts = [f"cp {self.folder}/{path} ." for path in paths]
        deep = jobs["merge-request"]["variables"].get("GIT_DEPTH") == "0"
        script = "\n".join([*artifacts, *jobs["merge-request"]["script"]])
        yield script, deep, {"UPDATE_TOKEN": "secret"}

    def branches(self) -> list[str]:
        listed = self.git("-C", "remote.git", "branch", "--format=%(refname:short)")
        return listed.split()

    def said(self) -> list[str]:
        """Return what was asked of `gh`, and what was pushed."""
        path = self.folder / "said"
        return path.read_text().splitlines() if path.exists() else []

    def body(self) -> str:
        """Return the text of the pull request."""
        if self.ci == "github":
            return (self.folder / "said.body").read_text()
        pushed = self.said()[-1].partition("merge_request.description=")[2]
        return pushed.rpartition(" https:")[0].replace("\\n", "\n")

    def commits(self) -> list[str]:
        """Return the subjects of the branch's commits that main does not have."""
        return self.git("-C", "remote.git", "log", "--format=%s", f"main..{BRANCH}").splitlines()

    def push_to_branch(self, name: str) -> None:
        """Commit a file to the branch, as a reviewer would."""
        other = self.folder / "other"
        self.git("clone", "-q", "-b", BRANCH, "remote.git", "other")
        (other / name).write_text("mine\n")
        for command in ("add --all", "commit -q -m mine", "push -q"):
            succeed(run("git", *command.split(), cwd=other))


@pytest.fixture(params=["github", pytest.param("gitlab", marks=MATRIX)])
def remote(request: pytest.FixtureRequest, tmp_path: Path, git_template: Path) -> Remote:
    return Remote(tmp_path, git_template, request.param)


@pytest.mark.slow
def test_no_pull_request_where_nothing_changed(remote: Remote) -> None:
    assert "Nothing to update." in succeed(remote.update())
    assert remote.branches() == ["main"]
    assert remote.said() == []


SUBJECT = "Update from triton-ensemble-template"


@pytest.mark.slow
def test_an_update_becomes_one_pull_request_that_explains_itself(remote: Remote) -> None:
    remote.release()
    succeed(remote.update())
    assert remote.branches() == ["main", BRANCH]
    changed = remote.git("-C", "remote.git", "diff", "--name-only", "main", BRANCH).split()
    assert [name for name in changed if not name.startswith("vendor/")] == [
        ".copier-answers.yml",
        MANAGED,
    ]
    if remote.ci == "github":
        created = remote.said()[-1]
        assert created.startswith(f"pr create --head {BRANCH} --title {SUBJECT} --body-file ")
        (remote.folder / "open").write_text("7\n")
    headline, *lines = remote.body().splitlines()
    assert headline == "image-classification: v1.0.0 -> v1.1.0, 4 files changed"
    assert lines[:5] == ["", "## v1.1.0", "- News of v1.1.0.", "", "```text"]
    assert f"  changed  {MANAGED}" in lines
    seen = (remote.folder / "seen").read_text()
    assert "BRANCH=" in seen
    assert "secret" not in seen

    before = remote.git("-C", "remote.git", "rev-parse", BRANCH)
    succeed(remote.update())  # nothing is new, so nothing is pushed
    assert remote.git("-C", "remote.git", "rev-parse", BRANCH) == before

    remote.release("v1.2.0")
    (remote.project / "README.md").unlink()  # main moves too
    remote.project.commit()
    succeed(remote.update())
    assert remote.commits() == [SUBJECT]
    assert "## v1.2.0\n- News of v1.2.0.\n## v1.1.0\n" in remote.body()
    if remote.ci == "github":
        refreshed = remote.said()[-1]
        assert refreshed.startswith("api --silent --method PATCH repos/me/p/pulls/7 --field body=@")


@pytest.mark.slow
def test_commits_of_others_on_the_branch_stay(remote: Remote) -> None:
    remote.release()
    succeed(remote.update())
    remote.push_to_branch("mine.txt")
    before = remote.git("-C", "remote.git", "rev-parse", BRANCH)
    remote.release("v1.2.0")
    line = f"{BRANCH} has the commits above, which are not this"
    assert line in succeed(remote.update())
    assert remote.git("-C", "remote.git", "rev-parse", BRANCH) == before

    remote.git("-C", "remote.git", "update-ref", "refs/heads/main", BRANCH)  # it is merged
    remote.git("-C", "p", "pull", "-q", str(remote.folder / "remote.git"), "main")
    succeed(remote.update())
    assert remote.commits() == [SUBJECT]


@pytest.mark.slow
def test_a_project_can_take_pre_releases_before_others(remote: Remote) -> None:
    remote.release("v1.1.0rc1")
    assert "Nothing to update." in succeed(remote.update())
    succeed(remote.update(PRERELEASES="1"))
    assert remote.body().startswith("image-classification: v1.0.0 -> v1.1.0rc1, ")


def test_gitlab_gives_no_token_to_what_an_update_brings(
    of_ci: Callable[..., Project], tmp_path: Path
) -> None:
    """The variable is for the environment of the job that pushes. The other one refuses it."""
    ci = read(of_ci(ci="gitlab", gpu_count=0) / ".gitlab-ci.yml")
    assert ci["merge-request"]["environment"]["name"] == "update"
    assert "environment" not in ci["update"]
    process = run("sh", "-ec", "\n".join(ci["update"]["script"]), cwd=tmp_path, UPDATE_TOKEN="x")
    assert process.returncode == 1
    assert process.stdout.startswith(
        'UPDATE_TOKEN must be visible only in the environment "update";'
    )


@pytest.mark.slow
def test_a_conflict_is_named_and_opens_none(remote: Remote) -> None:
    remote.release()
    with (remote.project / MANAGED).open("a") as file:
        file.write("# mine\n")
    remote.project.commit()
    process = remote.update()
    assert process.returncode
    assert f"{MANAGED}: you and the template changed the same lines" in process.stdout
    assert "make update failed; the lines above say why" in process.stdout
    assert remote.branches() == ["main"]
    assert remote.said() == []


@pytest.mark.slow
def test_the_script_for_other_tools_commits_an_update_but_no_conflict(
    tmp_path: Path, git_template: Path
) -> None:
    remote = Remote(tmp_path, git_template, "github")
    shell = read_blocks((ROOT / "docs/fleet.md").read_text(), "sh")
    [script] = [block for block in shell if "git commit" in block]
    (tmp_path / "update.sh").write_text(script)

    def commit() -> tuple[int, str]:
        """Return the exit code of the script, and the message of its commit."""
        remote.clone("--depth=1")
        code = remote.job("sh ../update.sh").returncode
        return code, remote.git("-C", "clone", "log", "--format=%B", "origin/main..")

    assert commit() == (0, "")
    remote.release()
    code, message = commit()
    headline = "image-classification: v1.0.0 -> v1.1.0, 4 files changed"
    assert message.startswith(f"{SUBJECT}\n\n{headline}\n\n## v1.1.0\n- News of v1.1.0.\n")
    assert code == 0
    with (remote.project / MANAGED).open("a") as file:
        file.write("# mine\n")
    remote.project.commit()
    code, message = commit()
    assert (bool(code), message) == (True, "")


@pytest.mark.parametrize("free_gb", [29, 30])
@pytest.mark.parametrize("ci", ["github", "gitlab"])
def test_a_machine_without_room_for_the_image_ends_the_job_at_once(
    generate: Generate, monkeypatch: pytest.MonkeyPatch, ci: str, free_gb: int
) -> None:
    project = generate(ci=ci)
    job = {"github": "image", "gitlab": "publish"}[ci]
    [command] = script_of(project, job, " ci build").splitlines()
    if ci == "github":
        runs_on = read(project / ".github/workflows/ci.yml")["jobs"]["image"]["runs-on"]
        assert runs_on == "${{ vars.IMAGE_RUNNER || 'ubuntu-24.04' }}"
    disk = SimpleNamespace(free=free_gb << 30)
    monkeypatch.setattr("triton_ensemble.serve.container.ci.shutil.disk_usage", lambda _: disk)
    removed: list[str] = []
    monkeypatch.setattr(
        "triton_ensemble.serve.container.ci.call", lambda *words: removed.extend(words)
    )
    monkeypatch.setattr("triton_ensemble.serve.container.ci.choose_images", list)
    words = command.split(" ci ")[1].split()
    variables = {"GITLAB_CI": "1"} if ci == "gitlab" else {"RUNNER_ENVIRONMENT": "github-hosted"}
    said = call(project, "ci", *words, **variables)
    assert said.status == (2 if free_gb < 30 else 0)
    assert removed[:3] == ([] if ci == "gitlab" else ["sudo", "rm", "-rf"])
    if free_gb < 30:
        line = "Triton's image needs 30 GB of disk, and 29 GB are free; "
        assert said.err.startswith(line)
