"""Shared by tests: a package index on this machine, laid out as PyTorch's own. Its wheels hold next to nothing."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support import free_port

NONE: dict[str, str] = {}


def add_wheel(
    index: Path, name: str, version: str, tag: str = "py3-none-any", more: Mapping[str, str] = NONE
) -> str:
    """Write a wheel with `more` files into an index, and its link into the page of the package. Return its digest."""
    module = name.replace("-", "_")
    path, info = index / name / f"{module}-{version}-{tag}.whl", f"{module}-{version}.dist-info"
    path.parent.mkdir(exist_ok=True)
    files = {
        f"{module}/__init__.py": f"__version__ = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n",
        **more,
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    address = f"/{name}/{path.name}".replace("+", "%2B")
    with (path.parent / "index.html").open("a") as page:
        page.write(f'<a href="{address}#sha256={digest}">{path.name}</a>\n')
    return digest


@contextmanager
def serve_index(folder: Path) -> Iterator[str]:
    """Serve an index for as long as a `with` block lasts. Yield its address."""
    port = free_port()
    command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as server:
        yield f"http://127.0.0.1:{port}"
        server.terminate()
