"""Stand-ins for images that a machine without a container registry can't pull, made of Debian's packages and PyPI's.

`triton`, for NVIDIA's. What is NVIDIA's: the server, release 24.10, its Python backend and its cache, from the wheel
`nvidia-pytriton` of this environment, and paths, user and entry point. What is not: Debian instead of Ubuntu, its Python
instead of that of the release, no GPU, and ONNX Runtime served by the Python backend of this template's local Triton.

`prometheus`, for its own: Debian's package, with the paths and the user of the image.

`grafana`, for its own: a server of one file, which answers the health check.

`caddy`, for its own: Debian's package.

Each is built once for what it is made of. `make down` of a project does not remove them.
"""

from __future__ import annotations

import configparser
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytriton

ROOT = Path(__file__).resolve().parents[3]
HERE = ROOT / "tests/docker"
WHEEL = Path(pytriton.__file__).parents[1]
DEBIAN, PYTHON = "bookworm", "3.11"
PACKAGES = ("ca-certificates", "python3", "python3-pip", f"libpython{PYTHON}")
# Where Debian and its users have the certificates that this machine trusts.
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


def docker(*arguments: str) -> str:
    """Return what Docker printed, or raise CalledProcessError with the reason on stderr."""
    command = [os.environ.get("DOCKER", "docker"), *arguments]
    environment = os.environ | {"DOCKER_BUILDKIT": "1"}
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment, text=True)
    return run.stdout.strip()


def exists(image: str) -> bool:
    return bool(docker("image", "ls", "--quiet", image))


@contextmanager
def pip_conf() -> Iterator[Path]:
    """Yield a file for a container with the indexes of this machine's pip, wherever it has them from."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    config = configparser.RawConfigParser()
    config["global"] = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        name = key.split(".")[-1]
        remote = [word for word in value.strip("'").split() if not word.startswith("file:")]
        if name in ("index-url", "extra-index-url", "trusted-host") and remote:
            config["global"][name] = " ".join(remote)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        config.write(file)
        file.flush()
        yield Path(file.name)


def build(name: str, context: Path, **arguments: str) -> str:
    """Return the image of a folder with a Dockerfile. Make it unless one of the same files and arguments is there."""
    digest = hashlib.sha256(repr(arguments).encode())
    for path in sorted(path for path in context.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(context)).encode() + path.read_bytes())
    image = f"triton-template-{name}:{digest.hexdigest()[:12]}"
    if not exists(image):
        with pip_conf() as conf:
            files = {"pip.conf": conf, "ca.pem": CA_BUNDLE}
            secrets = [f"--secret=id={id},src={p}" for id, p in files.items() if p.exists()]
            options = [f"--build-arg={name}={value}" for name, value in arguments.items()]
            docker("build", "--quiet", *options, *secrets, "--tag", image, str(context))
    return image


def debian() -> str:
    """Return an image of Debian with Python."""
    digest = hashlib.sha256(f"{DEBIAN} {PACKAGES}".encode()).hexdigest()[:12]
    image = f"triton-template-debian:{digest}"
    if not exists(image):
        with tempfile.TemporaryDirectory() as folder:
            options = ["--variant=minbase", f"--include={','.join(PACKAGES)}", DEBIAN, folder]
            subprocess.run(["debootstrap", *options], check=True, stdout=subprocess.DEVNULL)
            archive = Path(folder, "debian.tar")
            pack = ["tar", "-C", folder, "--exclude=./debian.tar", "-cf", str(archive), "."]
            subprocess.run(pack, check=True)
            docker("import", str(archive), image)
    return image


def triton() -> str:
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder, "context")
        shutil.copytree(HERE / "triton", context)
        for path in ("locks/requirements.lock", "src/triton_ensemble/serve/container/packages.py"):
            shutil.copy(ROOT / path, context)
        _fill(context / "root/opt/tritonserver")
        return build("stand-in", context, BASE=debian())


def _fill(server: Path) -> None:
    """Copy what belongs into /opt/tritonserver."""
    wheel, ours = WHEEL / "pytriton/tritonserver", ROOT / "src/triton_ensemble/serve/local/backends"
    folders = {name: wheel / name for name in ("bin", "backends", "caches")}
    for name, folder in (folders | {"lib": WHEEL / "nvidia_pytriton.libs"}).items():
        leave = shutil.ignore_patterns("__pycache__")
        shutil.copytree(folder, server / name, ignore=leave, dirs_exist_ok=True)
    stub = wheel / "python_backend_stubs" / PYTHON / "triton_python_backend_stub"
    (server / "backends/onnxruntime").mkdir()
    files = {
        "python/triton_python_backend_stub": stub,
        "python/local_backend.py": ours / "python/local_backend.py",
        "onnxruntime/model.py": ours / "onnxruntime/model.py",
    }
    for name, file in files.items():
        shutil.copy(file, server / "backends" / name)


def prometheus() -> str:
    return build("prometheus", HERE / "prometheus", BASE=debian())


def grafana() -> str:
    return build("grafana", HERE / "grafana", BASE=debian())


def caddy() -> str:
    return build("caddy", HERE / "caddy", BASE=debian())
