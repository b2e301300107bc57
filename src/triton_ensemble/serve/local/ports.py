"""Ports of this machine: free ones, and what holds the others: a container, or a process, from Linux's /proc."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

from triton_ensemble.facts.variables import read_docker, read_port
from triton_ensemble.serve.local.process import ServerError

HOST = "127.0.0.1"
PROC = Path("/proc")
LISTENS = "0A"  # in the fourth column of /proc/net/tcp
STARTED = 19  # in /proc/PID/stat, counted from behind the name: ticks since the machine started
SHOWN = 60  # characters of a command line
PUBLISHED = '{{.Names}}{{with .Label "com.docker.compose.project.working_dir"}} of {{.}}{{end}}'
DOCKER_S = 5  # seconds that an engine has to answer
USUAL = {"http": 8000, "grpc": 8001}


def free_ports(wanted: dict[str, int]) -> dict[str, int]:
    """Replace each 0 by a free port, or raise ServerError if another port is taken, or is not a port."""
    for number, (api, port) in enumerate(wanted.items()):
        if not 0 <= port < 2**16 or port in {*[*wanted.values()][:number]} - {0}:
            raise ServerError(f"{api} can't have port {port}; choose another, or 0 for a free one")
    if held := describe_taken(wanted):
        raise ServerError(held)
    ports: dict[str, int] = {}
    with ExitStack() as stack:  # all are held until the last is chosen, so they differ
        for api, port in wanted.items():
            probe = stack.enter_context(socket.socket())
            if not port:
                probe.bind((HOST, 0))
            ports[api] = port or int(probe.getsockname()[1])
    return ports


def is_taken(port: int) -> bool:
    """Return whether something listens on a TCP port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def usual(api: str) -> int:
    """Return the port at which `make serve` serves an API: HTTP_PORT or GRPC_PORT of the environment, else Triton's own."""
    return read_port(f"{api.upper()}_PORT", USUAL[api])


def grpc_target(url: str) -> str:
    """Return host:port for gRPC. For an address of HTTP, the port is GRPC_PORT of the same host."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or not parts.hostname:
        raise RuntimeError(f"{url} is not a server; write grpc://host:port")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    over_grpc = parts.scheme.startswith("grpc")
    return f"{host}:{(parts.port if over_grpc else None) or usual('grpc')}"


def not_asked(api: str) -> str:
    """Return a clause that the server at the usual port is not asked, or an empty string if there is none.

    Another server is started beside it.
    """
    port = usual(api)
    return f"; that at port {port}, {server_at(port)}, is not asked" if is_taken(port) else ""


def describe_taken(ports: Mapping[str, int], ours: str = "") -> str:
    """Return in a line which ports are in use, by what, and what takes free ones.

    The line is empty if none is in use. `ports` are by API, as their variables are named. 0 is a free one.
    Containers of the folder `ours` may have them.
    """
    holders: dict[str, list[str]] = {}
    for api, port in ports.items():
        if port and is_taken(port) and not (by := holder(port)).endswith(f" of {ours}"):
            holders.setdefault(by, []).append(api)
    parts = [_format_held([ports[api] for api in apis], by) for by, apis in holders.items()]
    free = " ".join(f"{api.upper()}_PORT=0" for apis in holders.values() for api in apis)
    return "; ".join([*parts, f"choose others, or free ones: {free}"]) if parts else ""


def _format_held(ports: Sequence[int], by: str) -> str:
    are = f"port {ports[0]} is" if len(ports) == 1 else f"ports {', '.join(map(str, ports))} are"
    return f"{are} in use, by {by}"


def holder(port: int) -> str:
    """Return `process 123 (python3 app.py)` or `container NAME of FOLDER` for what listens on a TCP port.

    Another user's process can't be seen: that is `another program`.
    """
    if container := _container(port):
        return container
    pid = _find_listener(port)
    return f"process {pid} ({_command(pid)})" if pid else "another program"


def server_at(port: int) -> str:
    """Return the holder of a port, and since when it runs: `process 123 (tritonserver) since 14:02:11`."""
    if _container(port) or not (pid := _find_listener(port)):
        return holder(port)
    return f"process {pid} ({_command(pid).split()[0]}) since {_read_start_time(pid)}"


def _container(port: int) -> str:
    """Return the container that publishes a port, and its folder.

    Return an empty string if none does, or if no engine answers.
    """
    command = [*read_docker(), "ps", "--filter", f"publish={port}"]
    with suppress(OSError, subprocess.TimeoutExpired):
        options = [*command, "--format", PUBLISHED]
        run = subprocess.run(options, capture_output=True, text=True, timeout=DOCKER_S)
        if run.returncode == 0 and run.stdout.strip():
            return f"container {run.stdout.splitlines()[0]}"
    return ""


def _find_listener(port: int) -> int:
    """Return the process that listens on a port, or 0 if none can be seen."""
    sockets = {f"socket:[{inode}]" for inode in _iter_listening(port)}
    for folder in PROC.glob("[0-9]*") if sockets else ():
        with suppress(OSError):  # it has ended meanwhile, or is another user's
            if any(os.readlink(file) in sockets for file in (folder / "fd").iterdir()):
                return int(folder.name)
    return 0


def _command(pid: int) -> str:
    command = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace")
    program, *arguments = command.rstrip("\0").split("\0")
    return " ".join([Path(program).name, *arguments])[:SHOWN]


def _read_start_time(pid: int) -> str:
    """Return the time of day at which a process was started."""
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    [boot] = _values((PROC / "stat").read_text().splitlines(), "btime")
    seconds = int(boot) + int(fields[STARTED]) / os.sysconf("SC_CLK_TCK")
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def _values(lines: Iterable[str], name: str) -> Iterator[str]:
    return (line.split()[1] for line in lines if line.startswith(f"{name} "))


def _iter_listening(port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on a port."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (PROC / "net" / table).read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == LISTENS and int(columns[1].rpartition(":")[2], 16) == port:
                    yield columns[9]
