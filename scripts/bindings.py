"""Builds NVIDIA's in-process Python API, `tritonserver`, over the local Triton: for tests of Ray Serve.

    python scripts/bindings.py SOURCES FOLDER

SOURCES is a checkout of triton-inference-server/core, for its releases from 24.10 on. FOLDER, for
PYTHONPATH, gets the package. NVIDIA's image has it as a wheel, and no package index has. Needs g++, Python's headers
and pybind11.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from triton_ensemble.serve.local import environment


def build(sources: Path, folder: Path) -> None:
    """Fill the folder; CalledProcessError where the compiler fails."""
    import pybind11  # of this command alone

    package = folder / "tritonserver"
    shutil.copytree(sources / "python" / "tritonserver", package)
    libraries = environment.site_packages() / "nvidia_pytriton.libs"
    [server] = libraries.glob("libtritonserver-*.so")
    includes = (sources / "include", sysconfig.get_path("include"), pybind11.get_include())
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    command: list[str | Path] = [
        *("g++", "-O1", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden"),
        *(f"-I{include}" for include in includes),
        package / "_c" / "tritonserver_pybind.cc",
        "-o",
        package / "_c" / f"triton_bindings{suffix}",
        server,
        # Of the libraries that it loads, too.
        *("-Wl,--disable-new-dtags", f"-Wl,-rpath,{libraries}"),
    ]
    subprocess.run(command, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", type=Path, metavar="SOURCES")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    build(options.sources, options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
