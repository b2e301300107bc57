"""The Python environment that the local Triton and its Python models run in."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from triton_ensemble.facts import catalog

MACHINES = ("x86_64", "aarch64")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
BACKENDS = Path(__file__).parent / "backends"
LIBPYTHON = f"libpython{PYTHON}.so.1.0"


def problems() -> Iterator[str]:
    """Return the reasons why this environment can't run the wheel's Triton, the root cause first."""
    system, glibc = f"{platform.system()} {platform.machine()}", platform.libc_ver()[1]
    numpy = _version("numpy") or "none"
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        where = f"Linux {' and '.join(MACHINES)}, not on {system}"
        instead = "work in WSL" if platform.system() == "Windows" else "use the container: make up"
        elsewhere = "or a server elsewhere: TRITON_URL=http://host:port"
        yield f"the local Triton runs on {where}; open .devcontainer/, {instead}, {elsewhere}"
    if glibc and tuple(map(int, glibc.split("."))) < (2, 35):
        yield f"the local Triton needs glibc 2.35, not {glibc}; use Debian 12 or Ubuntu 22.04"
    if not (3, 10) <= sys.version_info < (3, 13):
        yield f"the local Triton runs on Python 3.10 to 3.12, not {PYTHON}; make a new environment"
    if not _version("nvidia-pytriton"):
        yield "the local Triton is not installed; run `pip install nvidia-pytriton==0.7.0`"
    if not numpy.startswith("1."):
        yield f"the local Triton needs numpy<2, not {numpy}; run `pip install 'numpy<2'`"
    if not _find_libpython():
        yield f"{sys.base_prefix} has no {LIBPYTHON}; use the Python of uv, conda or Debian"
    # Triton hands the path of a Python model, which is a link there, to a shell, and to a Python that reads ASCII.
    if (folder := tempfile.gettempdir()) != shlex.quote(folder):
        what = "a blank, a letter beyond ASCII or a special character in the path of its temporary folder stops Triton"
        yield f"{folder!r}: {what}; name another, such as TMPDIR=/tmp"


def _version(package: str) -> str:
    """Return the version of a package that Python models have, or an empty string.

    Python models do not get PYTHONPATH.
    """
    foreign = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    theirs = [folder for folder in sys.path if folder not in map(os.path.abspath, foreign)]
    found = importlib.metadata.distributions(name=package, path=theirs)
    return next((distribution.version for distribution in found), "")


def site_packages() -> Path:
    return Path(str(importlib.metadata.distribution("nvidia-pytriton").locate_file("")))


def _find_libpython() -> str | None:
    libdir, multiarch = sysconfig.get_config_vars("LIBDIR", "MULTIARCH")
    folders = (libdir, f"{libdir}/{multiarch}", f"{sys.base_prefix}/lib")
    return next((folder for folder in folders if os.path.exists(f"{folder}/{LIBPYTHON}")), None)


def variables() -> dict[str, str]:
    # A step that could import the project here would fail in the container.
    foreign = ("PYTHONHOME", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in foreign}
    first = {
        # A Python model runs in the environment of the first `python3` in PATH.
        "PATH": str(Path(sys.executable).parent),
        "LD_LIBRARY_PATH": f"{_find_libpython()}:{site_packages() / 'nvidia_pytriton.libs'}",
    }
    for name, folders in first.items():
        environment[name] = ":".join(filter(None, (folders, environment.get(name))))
    return environment


def copy_backends(wheel: Path, folder: Path, stand_ins: Sequence[str]) -> list[str]:
    """Fill `folder` with the wheel's Python backend and ours, and return the names of all backends.

    These 3 MB are copied for each server, because Triton refuses links that leave its backend
    directory. A shared copy would have to tell apart versions, and starts at the same time.
    """
    for source in (wheel / "backends", BACKENDS):
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__*"))
    stub = wheel / "python_backend_stubs" / PYTHON / "triton_python_backend_stub"
    shutil.copy(stub, folder / "python")
    for name in (*stand_ins, *catalog.VERBATIM_PLATFORMS):
        if not (folder / name).exists():
            shutil.copytree(folder / "stand_in", folder / name)
    shutil.rmtree(folder / "stand_in")
    return [entry.name for entry in folder.iterdir()]
