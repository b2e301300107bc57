"""The variables of the commands for containers, from make's command line or the shell, with their defaults."""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from triton_ensemble.environment.needs import is_on, read_torch_index
from triton_ensemble.facts.project import Project, ProjectError
from triton_ensemble.facts.variables import read_docker, split_words
from triton_ensemble.serve.container.kinds import IMAGES

LOCK = Path("deploy/images.lock")
MEMINFO = Path("/proc/meminfo")
MEMORY_SHARE = 0.8  # of the machine's
# Files that the build mounts as secrets, and those that compose does.
BUILD_SECRETS = {"PIP_CONF": "pip.conf", "CA_BUNDLE": "ca.pem"}
KEY_FILES = ("ADMIN_KEY_FILE", "GRAFANA_PASSWORD_FILE", "GATEWAY_API_KEYS_FILE")
GATEWAY_KEYS = "/run/secrets/gateway-keys"  # where the gateway's container has its file


@dataclass(frozen=True)
class Settings:
    """The images and containers of a checkout, and the programs that build and start them."""

    root: Path
    images: dict[str, str]  # its own and those of others, by variable
    project_name: str  # of compose
    models: str  # in the image: copied, mounted or alone
    docker: list[str]
    docker_options: list[str]  # of a build
    torch_index: str
    build_secrets: dict[str, str]  # paths by the names that the Dockerfiles have for them
    key_files: dict[str, str]  # absolute paths by variable
    has_gpus: bool
    publishes_triton: bool
    profiles: str  # of compose
    memory: str  # limit of Triton's container
    compose_program: list[str]  # empty: docker's, else the older one

    @classmethod
    def read(cls, project: Project, given: Mapping[str, str] = os.environ) -> Settings:
        """Read the variables, or raise ProjectError for models that no image of the project has."""
        files = {name: given.get(name, "") for name in KEY_FILES}
        build_secrets = {id: given.get(name, "") for name, id in BUILD_SECRETS.items()}
        options = split_words("DOCKER_OPTIONS", given.get("DOCKER_OPTIONS", ""))
        name = f"{project.container_name}-{checkout_number(project.root)}"
        return cls(
            root=project.root,
            images={name: given.get(name) or image for name, image in list_images(project).items()},
            project_name=given.get("COMPOSE_PROJECT_NAME") or name,
            models=_check_models(project.root, given.get("MODELS") or "copied"),
            docker=read_docker(given),
            docker_options=[os.path.expandvars(word) for word in options],
            torch_index=read_torch_index(given),
            build_secrets={id: path for id, path in build_secrets.items() if path},
            key_files={n: str(project.root / path) if path else "" for n, path in files.items()},
            has_gpus=given.get("GPUS") != "0",
            publishes_triton=is_on(given.get("TRITON_PORTS", "")),
            profiles=given.get("COMPOSE_PROFILES", "monitoring"),
            memory=given.get("MEMORY", _default_memory()),
            compose_program=split_words("COMPOSE", given.get("COMPOSE", "")),
        )

    @property
    def has_gateway(self) -> bool:
        """Whether the project has a gateway."""
        return (self.root / "deploy/gateway.Dockerfile").is_file()

    @property
    def compose_files(self) -> list[str]:
        """The files that compose reads, without the owner's."""
        chosen = {
            "compose.yaml": True,
            "compose.ports.yaml": self.publishes_triton,
            "compose.gpu.yaml": self.has_gpus,
            "compose.mounted.yaml": self.models == "mounted",
        }
        files = (f"deploy/{name}" for name, is_chosen in chosen.items() if is_chosen)
        return [file for file in files if (self.root / file).is_file()]

    @cached_property
    def compose_command(self) -> list[str]:
        """The program: docker's plugin if there is one, else the older docker-compose."""
        if self.compose_program:
            return self.compose_program
        plugin = [*self.docker, "compose"]
        with suppress(OSError):
            if not subprocess.run([*plugin, "version"], capture_output=True).returncode:
                return plugin
        return ["docker-compose"]

    @property
    def compose(self) -> list[str]:
        """The program, with the compose project and its files, of which the owner's comes last."""
        own = "deploy/compose.override.yaml"
        files = [*self.compose_files, *([own] if (self.root / own).is_file() else [])]
        options = [word for file in files for word in ("--file", file)]
        return [*self.compose_command, "--project-name", self.project_name, *options]

    @property
    def variables(self) -> dict[str, str]:
        """The variables that compose files read."""
        keys = GATEWAY_KEYS if self.key_files["GATEWAY_API_KEYS_FILE"] else ""
        named = {"COMPOSE_PROFILES": self.profiles, "MEMORY": self.memory, "GATEWAY_KEYS": keys}
        return self.images | self.key_files | named


def checkout_number(root: Path) -> int:
    """Return a number of a folder's path, so that two checkouts do not replace each other's containers."""
    return zlib.crc32(os.fsencode(root))


def list_images(project: Project) -> dict[str, str]:
    """Return the images of a checkout, and images of others with the digest that its lock has for a tag."""
    name, number = project.container_name, checkout_number(project.root)
    lock = project.root / LOCK
    pinned = lock.read_text(encoding="utf-8").split() if lock.is_file() else []
    used = {
        variable: next((each for each in pinned if each.startswith(f"{image}@")), image)
        for variable, image in project.images.items()
    }
    return {
        image.variable: f"{name}{image.suffix}:{number}"
        for image in IMAGES.values()
        if image.built_as == image.variable
    } | used


def _check_models(root: Path, models: str) -> str:
    known = ["copied", "mounted", *(["alone"] if (root / "deploy/kubernetes").is_dir() else [])]
    if models not in known:
        raise ProjectError(f"MODELS is {', '.join(known[:-1])} or {known[-1]}, not {models}")
    return models


def _default_memory() -> str:
    """Return a limit of memory for this machine, or no limit if its size is not known."""
    with suppress(OSError):
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemTotal:"):
                return f"{int(int(line.split()[1]) * MEMORY_SHARE)}k"
    return ""
