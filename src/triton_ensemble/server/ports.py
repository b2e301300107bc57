"""Which process holds a port of this machine, as Linux tells in /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
LISTENS = "0A"  # in the fourth column of /proc/net/tcp
SHOWN = 60  # characters of a command line


def holder(port: int) -> str:
    """Return `process 123 (python3 app.py)` for what listens on a TCP port.

    Another user's process can't be seen: that is `another program`.
    """
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile, or is another user's
            if any(os.readlink(file) in sockets for file in (folder / "fd").iterdir()):
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
                program, *arguments = command.rstrip("\0").split("\0")
                shown = " ".join([Path(program).name, *arguments])[:SHOWN]
                return f"process {folder.name} ({shown})"
    return "another program"


def _listening(port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on a port."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (PROC / "net" / table).read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == LISTENS and int(columns[1].rpartition(":")[2], 16) == port:
                    yield columns[9]
