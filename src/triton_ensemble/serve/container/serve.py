"""Start Triton with the administrators' APIs open only to clients with a key, and say what is wrong with a bucket or engines.

Triton takes the key from its command line, which each user of the machine can read, also from outside the container.
Another process therefore removes the key from there as soon as Triton has read it.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from triton_ensemble.facts.project import (
    FILE,
    STAGE,
    Project,
    ProjectError,
)
from triton_ensemble.serve import engines
from triton_ensemble.serve import s3_readable as readable
from triton_ensemble.serve.container.engines import RELEASE, gpus
from triton_ensemble.serve.local.key_file import read_keys
from triton_ensemble.serve.local.traces import list_flags

PROJECT = Path("/opt")  # where the image has vendor/project.json
# Compose and Kubernetes mount the administrators' key. A volume at /run/secrets would keep a cluster from mounting its
# own tokens below it, and the container from starting (kubernetes#72261).
KEY_FILES = (Path("/run/secrets/admin-key"), Path("/opt/admin/admin-key"))
APIS = "model-repository,model-config,shared-memory,trace,logging"
REPOSITORY = "--model-repository="
OPTIONS = ("--http-restricted-api", "--grpc-restricted-protocol")
# In the memory map of a Triton that loads models, so has read its command line.
BACKENDS = b"/backends/"
PAUSE_S = 0.01
ARG_START = 45  # in /proc/PID/stat behind the name: where in memory the command line is
PR_SET_PTRACER = 0x59616D61


def main(arguments: Sequence[str]) -> None:
    """Become Triton with these arguments.

    Exit with a line if it can't read a key, or the models in a bucket.
    """
    for text in (
        word.removeprefix(REPOSITORY) for word in arguments if word.startswith(REPOSITORY)
    ):
        if text.startswith("s3://") and (problem := readable.problem(text, os.environ)):
            sys.exit(f"MODEL_REPOSITORY: {problem}")
        for fatal, line in _check_engines(Path(text)):
            print(line, file=sys.stderr, flush=True)
            if fatal:
                sys.exit(1)
    closed = f"{APIS}:admin-key={_read_key() or uuid.uuid4()}"
    _start_hiding(os.getpid())
    options = [f"{option}={closed}" for option in OPTIONS]
    if stage := os.environ.get(STAGE, ""):
        try:
            Project.load(PROJECT).check_stage(stage)
        except ProjectError as error:
            sys.exit(f"{STAGE}: {error}")
        options.append(f"--model-config-name={stage}")
    os.execvp("tritonserver", ["tritonserver", *arguments, *list_flags(), *options])


def _read_key() -> str:
    """Return the key of administrators, or an empty string without one.

    Exit with a line if it can't be read.
    """
    for file in KEY_FILES:
        try:
            key, *more = map(bytes.decode, read_keys(file) or [b""])
        except FileNotFoundError:
            continue
        except OSError as error:
            sys.exit(f"{file}: user {os.getuid()} can't read the key of administrators: {error}")
        except ValueError as error:
            sys.exit(f"{file}: {error}")
        if more:
            sys.exit(f"{file}: has several lines; write one, the key of administrators")
        return key
    return ""


def _check_engines(repository: Path) -> Iterator[tuple[bool, str]]:
    """Yield what is wrong with engines of TensorRT here, or nothing if no driver says what is here."""
    if (PROJECT / FILE).is_file() and (project := Project.load(PROJECT)).engines:
        release = os.environ.get(RELEASE, project.release)
        yield from engines.problems(project, repository, gpus(), release)


def _start_hiding(process: int) -> None:
    """Start what hides the key of a process, as no child of it: Triton waits for its own children alone."""
    reader, writer = os.pipe()
    if child := os.fork():
        os.waitpid(child, 0)
        # Where Linux lets a process write into the memory of its own children alone, it may into this one's.
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, int(os.read(reader, 20)))
    elif helper := os.fork():
        os.write(writer, str(helper).encode())
        os._exit(0)
    else:
        hide(Path(f"/proc/{process}"))
        os._exit(0)


def hide(process: Path) -> None:
    """Remove the key from the command line of a process once it has loaded a backend.

    Print why if that fails.
    """
    try:
        while BACKENDS not in (process / "maps").read_bytes():
            time.sleep(PAUSE_S)
        start = int((process / "stat").read_text().rpartition(")")[2].split()[ARG_START])
        arguments = (process / "cmdline").read_bytes()
        with (process / "mem").open("r+b", buffering=0) as memory:
            for match in re.finditer(rb":admin-key=([^\0]*)", arguments):
                memory.seek(start + match.start(1))
                memory.write(bytes(len(match[1])))
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended
    except OSError as error:
        print(f"the list of processes shows the admin key: {error}", file=sys.stderr, flush=True)
