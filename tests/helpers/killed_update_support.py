"""Shared by tests: what an update leaves that was killed is undone by the next one, before anything else."""

from __future__ import annotations

# An update that is killed as it moves a file or, with none left to move, when all is done.
KILLED = """
import os, signal, sys
from pathlib import Path
from triton_ensemble.cli import main
from triton_ensemble.change.stage import Stage

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def move(path, target, left=list(range(int(sys.argv[1])))):
    return rename(path, target) if left and left.pop() + 1 else kill()

rename, Path.rename, Stage.end = Path.rename, move, kill
main(["update"])
"""
