"""The jobs that publish an image, run here with a real registry: what gets the tag is what was tested, and built once."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml
from support import ROOT, SOURCES, Generate, Project, run, succeed

from docker.stand_in import docker
from triton_ensemble.serve.container import digests

CONFIG = """
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
log: {{level: error}}
"""
PORT = 5987


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of Debian's registry, which is Docker's."""
    if not (program := shutil.which("docker-registry")):
        pytest.skip("docker-registry is not installed")
    folder, address = tmp_path_factory.mktemp("registry"), f"127.0.0.1:{PORT}"
    (folder / "config.yml").write_text(CONFIG.format(folder=folder / "data", port=PORT))
    process = subprocess.Popen([program, "serve", str(folder / "config.yml")])
    try:
        for _ in range(100):
            try:
                urlopen(f"http://{address}/v2/", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def scripts(project: Project, ci: str, registry: str) -> list[str]:
    """Return the commands of the job that publishes, in order. The registry takes the place of GitHub's."""
    if ci == "gitlab":
        job = yaml.safe_load((project / ".gitlab-ci.yml").read_text())["publish"]
        return ["\n".join(job["script"])]
    job = yaml.safe_load((project / ".github/workflows/ci.yml").read_text())["jobs"]["image"]
    commands = [step["run"] for step in job["steps"] if "run" in step and "if" not in step]
    return [command.replace("ghcr.io", registry).replace(" --room", "") for command in commands]


def files_of(image: str) -> set[str]:
    """Return the paths of the files in an image, which has no command."""
    container = docker("create", image, "none")
    try:
        command = [os.environ["DOCKER"], "export", container]
        archive = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    finally:
        docker("rm", container)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = [file for file in tar if file.isfile() and file.size]
    assert {file.mode & 0o777 for file in files} == {0o555}
    return {file.name for file in files}


@pytest.mark.parametrize(
    ("ci", "gpu_count", "extras", "names"),
    [
        ("github", 0, ["kubernetes"], ["sent-mounted", "sent-models"]),
        ("gitlab", 1, [], []),
    ],
)
def test_the_published_image_is_the_tested_one(
    generate: Generate,
    options: list[str],
    python_image: str,
    registry: str,
    tmp_path: Path,
    ci: str,
    gpu_count: int,
    extras: list[str],
    names: list[str],
) -> None:
    extras = ["gateway", *extras]
    project = generate(project_name="sent", ci=ci, gpu_count=gpu_count, extras=extras)
    (tmp_path / "docker").symlink_to(ROOT / "tests/docker/buildx")
    make = " ".join([shutil.which("make") or "", *project.make_command()[1:]])
    (tmp_path / "make").write_text(f'#!/bin/sh\nexec {make} "$@"\n')
    (tmp_path / "make").chmod(0o755)
    program = project / ".venv/bin/triton-ensemble"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m triton_ensemble "$@"\n')
    program.chmod(0o755)
    environment = {
        "PYTHONPATH": str(SOURCES),
        "IMAGES": "mounted models" if names else "",
        "BUILDX_BUILDER": "job-1",
        "PATH": f"{tmp_path}:{Path(sys.prefix, 'bin')}:/usr/bin:/bin:/usr/sbin",
        "ENGINE": os.environ["DOCKER"],
        "DOCKER": "docker",
        "ASKED": str(tmp_path / "asked"),
        "GPUS": "0",
        "PYTEST_ADDOPTS": "-k 'no_rights or gateway'",
        "GITHUB_REPOSITORY": "Me/sent",
        "GITHUB_REF_NAME": "v1.2.3",
        **({"GITHUB_ENV": str(tmp_path / "env")} if ci == "github" else {}),
        "GITHUB_SERVER_URL": "https://example.org",
        "GITHUB_SHA": "abc",
        "RUNNER_TEMP": str(tmp_path),
        "CI_REGISTRY": registry,
        "CI_REGISTRY_IMAGE": f"{registry}/me/sent",
        "CI_COMMIT_TAG": "v1.2.3",
        "CI_COMMIT_SHA": "abc",
        "CI_PROJECT_URL": "https://example.org/Me/sent",
        "CI_JOB_ID": "1",
        "PYTHON_IMAGE": python_image,
        **dict(option.split("=", 1) for option in options),
    }
    tested = ""
    for script in scripts(project, ci, registry):
        (tmp_path / "env").touch()
        of_job = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
        process = run(
            "bash", "-eo", "pipefail", "-c", script, cwd=project.path, **environment | of_job
        )
        tested += succeed(process)
    assert tested.count("2 passed") == (2 if "kubernetes" in extras else 1)
    asked = (tmp_path / "asked").read_text()
    built = re.findall(r"^build .*", asked, re.M)
    tagged = re.findall(r"^imagetools create --tag (\S+) (\S+)@(\S+)", asked, re.M)
    for name, command, (tag, *tested_image) in zip(
        ["sent", "sent-gateway", *names], built, tagged, strict=True
    ):
        assert [tag, *tested_image] == [
            f"{registry}/me/{name}:v1.2.3",
            f"{registry}/me/{name}",
            digests.digest(tag),
        ]
        options_of_build = {"--sbom=true", "--provenance=mode=max", "--cache-from", "--cache-to"}
        assert options_of_build <= {*command.split()}
        labels = docker("inspect", "--format={{.Config.Labels}}", "@".join(tested_image))
        assert "image.revision:abc" in labels
        assert "image.version:v1.2.3" in labels
        if name == "sent-models":
            assert files_of("@".join(tested_image)) == {
                str(path.relative_to(project / "model_repository"))
                for path in (project / "model_repository").glob("*/**/*")
                if path.is_file() and path.parent.name != "__pycache__"
            }
        if names and name != "sent-mounted":
            assert f"{name} is {'@'.join(tested_image)}\n" in tested
        docker("image", "rm", "--force", tag)
