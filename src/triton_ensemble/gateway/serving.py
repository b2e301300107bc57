"""uvicorn's processes: a signal closes all sockets that listen, and a worker that dies is named in the log."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from socket import socket

import uvicorn
from uvicorn.supervisors import ChangeReload, Multiprocess

from triton_ensemble.gateway.worker import FOLDER

LOG = logging.getLogger("gateway")


def serve(app: str, **options: object) -> None:
    """Serve an application until a signal.

    Requests that are under way then have as long as the options say.
    """
    config = uvicorn.Config(app, **options)  # type: ignore[arg-type]
    if config.should_reload:
        target = uvicorn.Server(config).run
        Reloaded(config, target=target, sockets=[config.bind_socket()]).run()
    elif config.workers > 1:
        Workers(config, sockets=[config.bind_socket()]).run()
    else:
        # Of a terminal that is closed; uvicorn handles SIGTERM only.
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
        uvicorn.run(app, **options)  # type: ignore[arg-type]


class Reloaded(ChangeReload):  # type: ignore[valid-type, misc]
    """One worker, in whose place another comes when files change."""

    def startup(self) -> None:
        super().startup()
        signal.signal(signal.SIGHUP, self.signal_handler)  # of a terminal that is closed

    def shutdown(self) -> None:
        _close(self.sockets)
        super().shutdown()


class Workers(Multiprocess):
    """Several workers. Until they end, this process would keep open the socket that they listen on."""

    def handle_hup(self) -> None:
        self.should_exit.set()  # the terminal is closed; uvicorn would start the workers anew

    def keep_subprocess_alive(self) -> None:
        before = list(self.processes)
        super().keep_subprocess_alive()
        for process in before:
            if process not in self.processes and process.exitcode:
                what = _describe(process.exitcode)
                LOG.error("worker %s ended by %s; another is started", process.pid, what)

    def terminate_all(self) -> None:
        _close(self.sockets)
        super().terminate_all()


def _close(sockets: Iterable[socket]) -> None:
    for each in sockets:
        each.close()


def _describe(exit_code: int) -> str:
    if exit_code == -signal.SIGBUS:
        return f"SIGBUS: the disk of {os.environ.get(FOLDER)} is full"
    with suppress(ValueError):
        return signal.Signals(-exit_code).name
    return f"exit status {exit_code}"
