"""An environment for each peer, made once and kept, with the versions that its requirements.txt names."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVERS = Path(__file__).with_name("servers")
KEPT = ROOT / "build" / "peers"
# PyTriton's backend takes the interpreter's library from here, or another one from the system, which may be older.
LIBRARIES = {"LD_LIBRARY_PATH": sysconfig.get_config_var("LIBDIR")}


class PeerError(RuntimeError):
    """Says in one line why a peer can't be measured. The others can."""


def environment(name: str) -> Path:
    """Return the folder of a peer's programs; PeerError where pip can't install them."""
    files = [SERVERS / "requirements.txt", SERVERS / name / "requirements.txt"]
    key = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    folder = KEPT / f"{name}-{key[:8]}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        made(folder, files[-1])
        (folder / "complete").touch()
    return folder / "bin"


def made(folder: Path, requirements: Path) -> None:
    """Make an environment in a folder."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--prefer-binary"]
    command = [*pip, "--disable-pip-version-check", "--requirement", str(requirements)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise PeerError(f"pip can't install it: {(lines or ['no reason given'])[-1]}")


def versions(programs: Path, packages: list[str]) -> str:
    """Return the versions of packages in an environment, `name version, name version`."""
    code = "import sys, importlib.metadata as m; print(', '.join(f'{p} {m.version(p)}' for p in sys.argv[1:]))"
    return subprocess.check_output([programs / "python", "-c", code, *packages], text=True).strip()
