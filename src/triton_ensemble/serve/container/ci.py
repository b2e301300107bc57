"""Do the work of CI jobs on images: build each once, test it by its digest, sign it, and give it the tag.

.github/workflows/ci.yml and .gitlab-ci.yml call this command, whose actions run one after the other:

  build REPOSITORY  build each image, and push it by digest. The digests are then in $GITHUB_ENV or
                    images.env, each as a variable, such as IMAGE and GATEWAY_IMAGE
  test              run `make test-docker` on the server's images
  sign, tag         sign the digests with cosign, tag them as the commit is tagged
  push BUCKET       push the model repository, by the role AWS_ROLE_ARN or by keys
  bench             start the containers on free ports, measure them, and stop them
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from triton_ensemble.facts.project import Project, ProjectError
from triton_ensemble.serve.container.images import list_words, make_readable
from triton_ensemble.serve.container.kinds import IMAGES, SERVER, Image
from triton_ensemble.serve.container.settings import Settings

# Those that the variable IMAGES may ask for.
BY_NAME = {image.suffix[1:]: image for image in IMAGES.values() if image.models != SERVER.models}
ROOM_GB = 30
# Tools of GitHub's machines that no job uses; Triton's image needs their room.
UNUSED = [
    "/opt/ghc", "/usr/local/.ghcup", "/usr/local/lib/android", "/usr/share/dotnet", "/usr/share/swift",
    "/opt/hostedtoolcache/CodeQL",
]  # fmt: skip
OPTIONS = "--sbom=true --provenance=mode=max --output type=image,push-by-digest=true,name-canonical=true,push=true"
FREE_PORTS = dict.fromkeys(("HTTP_PORT", "GRPC_PORT", "METRICS_PORT", "GATEWAY_PORT"), "0")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    build = actions.add_parser("build", help="build the images and push them by digest")
    build.add_argument("repository", help="where they are pushed, such as ghcr.io/owner/name")
    build.add_argument("--room", action="store_true", help="refuse a disk that is too small first")
    actions.add_parser("test", help="test the server's images by their digests")
    actions.add_parser("sign", help="sign the images with cosign")
    actions.add_parser("tag", help="give the images the commit's tag")
    push = actions.add_parser("push", help="push the model repository to a bucket")
    push.add_argument("bucket", help="s3://bucket/prefix")
    actions.add_parser("bench", help="measure the containers")


def run(arguments: argparse.Namespace) -> int:
    """Do an action, and return 1 if a program that it calls fails."""
    try:
        return ACTIONS[arguments.action](arguments)
    except subprocess.CalledProcessError:
        return 1
    except FileNotFoundError as error:
        raise ProjectError(f"there is no {error.filename}; install it on this machine") from None


def call(*words: str, **variables: str) -> None:
    """Run a program, or raise CalledProcessError if it fails."""
    subprocess.run(words, check=True, env=os.environ | variables)


def choose_images() -> Iterator[Image]:
    """Yield the images of the project's extras and of the variable IMAGES."""
    wanted = os.environ.get("IMAGES", "").replace(",", " ").split()
    if unknown := [name for name in wanted if name not in BY_NAME]:
        raise ProjectError(f"IMAGES: there is no image {unknown[0]}; write mounted, models or both")
    named = {BY_NAME[name] for name in wanted}
    yield from (image for image in IMAGES.values() if image.is_used or image in named)


def build(arguments: argparse.Namespace) -> int:
    """Build the chosen images, and write down their digests."""
    if arguments.room:
        make_room()
    if not (given := read("GITHUB_ENV")):
        Path("images.env").write_text("")
    target = Path(given or "images.env")
    digests: dict[str, str] = {}
    settings = Settings.read(Project.load(Path.cwd()))
    make_readable(settings.root)
    for image in choose_images():
        repository = arguments.repository.lower() + image.suffix  # Docker takes no capitals
        digests[image.variable] = build_image(settings, image, repository, digests)
        with target.open("a") as file:
            file.write(f"{image.variable}={digests[image.variable]}\n")
    if is_hosted():  # the image that is tested needs this room, beside the one that was built
        call("docker", "buildx", "prune", "--all", "--force")
    return 0


def build_image(settings: Settings, image: Image, repository: str, built: dict[str, str]) -> str:
    """Build an image, push it without a tag, and return its name and digest."""
    with tempfile.TemporaryDirectory() as folder:
        metadata = Path(folder, "image.json")
        chosen = replace(
            settings,
            images=settings.images | built | {image.built_as: repository},
            models=image.models,
            docker=["docker", "buildx"],
            docker_options=[*OPTIONS.split(), *list_options(repository, metadata)],
        )
        call(*list_words(chosen, image.built_as))
        digest = json.loads(metadata.read_text())["containerimage.digest"]
    print(f"{image.variable}={repository}@{digest}", flush=True)
    return f"{repository}@{digest}"


def list_options(repository: str, metadata: Path) -> Iterator[str]:
    """Yield the options of a build that differ between images."""
    cache = f"type=registry,ref={repository}:cache"
    yield from ("--metadata-file", str(metadata))
    yield from ("--cache-from", cache, "--cache-to", f"{cache},mode=max")
    github = f"{read('GITHUB_SERVER_URL')}/{read('GITHUB_REPOSITORY')}"
    for name, value in {
        "source": read("CI_PROJECT_URL") or github,
        "revision": read("CI_COMMIT_SHA", "GITHUB_SHA"),
        "version": read_tag(),
    }.items():
        yield from ("--label", f"org.opencontainers.image.{name}={value}")


def read(*names: str) -> str:
    """Return the first of some variables that is set, or an empty string."""
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def read_tag() -> str:
    """Return the tag of the commit."""
    return read("CI_COMMIT_TAG", "GITHUB_REF_NAME")


def list_built() -> list[tuple[str, str]]:
    """Return the variables of the images that `build` has built, and their names with digests."""
    names = [(variable, read(variable)) for variable in IMAGES]
    built = [(variable, name) for variable, name in names if "@" in name]
    if not built:
        raise ProjectError("IMAGE has no digest; run `triton-ensemble ci build` before")
    return built


def test(arguments: argparse.Namespace) -> int:
    """Test the image with the models, and the one without."""
    built = dict(list_built())
    call("make", "test-docker", REQUIRE_DOCKER="1")
    if mounted := built.get("MOUNTED_IMAGE"):
        call("make", "test-docker", REQUIRE_DOCKER="1", MODELS="mounted", IMAGE=mounted)
    return 0


def sign(arguments: argparse.Namespace) -> int:
    """Sign each digest with the identity of the job."""
    call("cosign", "sign", "--yes", *(name for _, name in list_built()))
    return 0


def tag(arguments: argparse.Namespace) -> int:
    """Give each digest the commit's tag."""
    for _, name in list_built():
        tagged = f"{name.partition('@')[0]}:{read_tag()}"
        call("docker", "buildx", "imagetools", "create", "--tag", tagged, name)
    return 0


def push(arguments: argparse.Namespace) -> int:
    """Push the model repository, with the keys in the environment or with a token of the job's identity."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {}
        if read("AWS_ROLE_ARN"):
            token = Path(folder, "token")
            token.touch(mode=0o600)
            token.write_text(read("AWS_TOKEN") or fetch_token())  # GitLab gives the token itself
            variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = str(token)
        call("make", "push", f"TO={arguments.bucket}", **variables)
    return 0


def fetch_token() -> str:
    """Return a token for AWS from GitHub."""
    url = f"{read('ACTIONS_ID_TOKEN_REQUEST_URL')}&audience=sts.amazonaws.com"
    authorization = {"Authorization": f"bearer {read('ACTIONS_ID_TOKEN_REQUEST_TOKEN')}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=authorization)) as answer:
            return str(json.load(answer)["value"])
    except (OSError, ValueError, KeyError) as error:
        lacks = "GitHub gives this job no token; its permissions need `id-token: write`"
        raise ProjectError(f"{lacks}: {error}") from None


def bench(arguments: argparse.Namespace) -> int:
    """Measure the containers, and stop them however that ends."""
    variables = {"COMPOSE_PROFILES": "", "TRITON_PORTS": "1"} | FREE_PORTS
    try:
        command, environment = ["make", "up"], os.environ | variables
        up = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        url = next((line for line in up.stdout.splitlines() if line.startswith("http:")), "")
        call("make", "bench", TRITON_URL=url)
    finally:
        subprocess.run(["make", "down", "ARGS=--volumes"], check=True)
    return 0


def is_hosted() -> bool:
    """Return whether this is a machine of GitHub's own."""
    return read("RUNNER_ENVIRONMENT") == "github-hosted"


def make_room() -> None:
    """Remove unused tools of GitHub's machines.

    Raise ProjectError if the disk has too little room for Triton's image.
    """
    if is_hosted():
        call("sudo", "rm", "-rf", *UNUSED)
    free_gb = shutil.disk_usage(".").free >> 30
    if free_gb < ROOM_GB:
        needs = f"Triton's image needs {ROOM_GB} GB of disk, and {free_gb} GB are free"
        raise ProjectError(f"{needs}; {LARGER['gitlab' if read('GITLAB_CI') else 'github']}")


LARGER = {
    "github": "name a larger runner, or your own, in the variable IMAGE_RUNNER of the repository",
    "gitlab": "write the tags of a larger runner into this job, such as saas-linux-medium-amd64",
}
ACTIONS = {
    "build": build,
    "test": test,
    "sign": sign,
    "tag": tag,
    "push": push,
    "bench": bench,
}
