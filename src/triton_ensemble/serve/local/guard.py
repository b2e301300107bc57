"""Ends a Triton if the program that started it was killed, and so could not end it."""

from __future__ import annotations

import subprocess
from pathlib import Path

# Not PR_SET_PDEATHSIG: that acts when a thread ends, and would spare the processes of the models.
SCRIPT = 'read -r _; kill -s KILL -- "-$1"; rm -rf -- "$2" "/dev/shm/$3"*'


class Guard:
    """Lets a session of processes, their folder and their shared memory not outlive this program."""

    def __init__(self, session: int, folder: Path, shared_memory: str) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", SCRIPT, "guard", str(session), str(folder), shared_memory],
            stdin=subprocess.PIPE,  # whose other end is this program's, however that ends
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal is not for it
        )

    def end(self) -> None:
        """Stop guarding: the session has ended."""
        self._process.kill()
        self._process.communicate()
