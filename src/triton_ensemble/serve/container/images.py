"""Build the images of this project: Triton with the models, and the images of extras, such as the gateway.

If a name has a digest, NAME@sha256:..., the image is pulled instead. These variables, in the environment or
on make's command line, say what to build:

  IMAGE, GATEWAY_IMAGE ...         the names; default: the project's, with a number of this folder
  TRITON_IMAGE, PYTHON_IMAGE       the images to start from
  MODELS                           copied (default), mounted: leave them out, alone: nothing else
  PIP_CONF, CA_BUNDLE              files with which pip reaches your package index; no layer has them
  TORCH_INDEX                      the package index for PyTorch alone
  DOCKER, DOCKER_OPTIONS           the program (default: docker), and more options of its build
"""

from __future__ import annotations

import argparse
import os
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from triton_ensemble.facts.project import Project
from triton_ensemble.serve import stubs
from triton_ensemble.serve.container.compose import ContainerError
from triton_ensemble.serve.container.kinds import IMAGES, SERVER
from triton_ensemble.serve.container.settings import Settings

MOUNTED = ("model_repository", "deploy/monitoring")
READABLE = stat.S_IRGRP | stat.S_IROTH


def run(arguments: argparse.Namespace) -> int:
    """Build the image of a command, and return its exit status."""
    project, extra = Project.load(Path.cwd()), arguments.command.removesuffix("-image")
    project.check_extra(extra)
    settings = Settings.read(project)
    image = next((i for i in IMAGES.values() if i.extra == extra and i.built_as != "IMAGE"), SERVER)
    # An image may start from that with the models, which is fetched if it has a digest.
    needs_models = image.base == SERVER.variable and "@" not in settings.images[image.base]
    status = build_with_models(settings) if image == SERVER or needs_models else 0
    return status if status or image == SERVER else build(settings, image.variable)


def build_with_models(settings: Settings) -> int:
    """Build Triton's image from files that its user can read, and return an exit status.

    Say what is left to do.
    """
    make_readable(settings.root)
    return build(settings, "IMAGE") or _advise()


def _advise() -> int:
    """Print what deploy/ gives too little of, and which files are stubs. Return 1 if those are errors."""
    from triton_ensemble.serve.container import sizes

    sizes.run(argparse.Namespace(short=True))
    return stubs.main()


def make_readable(root: Path) -> None:
    """Let the users of containers read the files that these mount or are built from, whatever the umask was."""
    for folder in MOUNTED:
        for path in (root / folder, *(root / folder).rglob("*")):
            if path.exists() and not path.is_symlink():
                mode = path.stat().st_mode
                if mode & READABLE != READABLE:
                    runs = path.is_dir() or mode & 0o111
                    path.chmod(stat.S_IMODE(mode) | READABLE | (0o011 if runs else 0))


def build(settings: Settings, variable: str) -> int:
    """Build an image, or pull one with a digest, and return Docker's exit status."""
    return call(list_words(settings, variable), DOCKER_BUILDKIT="1")


def list_words(settings: Settings, variable: str) -> list[str]:
    """Return the command that builds or pulls an image."""
    image = settings.images[variable]
    if "@" in image:
        return [*settings.docker, "pull", "--quiet", image]
    words = [*settings.docker, "build", "--file", IMAGES[variable].file, "--tag", image]
    base = IMAGES[variable].base
    arguments = {base: settings.images[base]}
    if variable == "IMAGE":
        words += ["--target", settings.models]
        arguments |= {"TORCH_INDEX": settings.torch_index} if settings.torch_index else {}
    for name, value in arguments.items():
        words += ["--build-arg", f"{name}={value}"]
    for name, path in settings.build_secrets.items():
        words += ["--secret", f"id={name},src={path}"]
    return [*words, *settings.docker_options, "."]


def call(words: Sequence[str], *, is_shown: bool = True, **variables: str) -> int:
    """Run a program of Docker's, and return its exit status.

    The user sees its output or, unless it `is_shown`, its errors alone.
    """
    shown = None if is_shown else subprocess.DEVNULL
    try:
        return subprocess.run(words, env=os.environ | variables, stdout=shown).returncode
    except FileNotFoundError:
        raise ContainerError(f"there is no {words[0]}; install Docker with compose") from None
