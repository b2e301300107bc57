"""On PYTHONPATH, break each Python process off as it moves its file number BREAK_AT, or writes or moves BREAK_FILE.

BREAK_BY is the signal that it gets. If it is 0, the disk is full, for one file.
"""

import errno
import os
import signal
import sys
from typing import Any

moves_left = int(os.environ["BREAK_AT"])


def break_off(event: str, arguments: tuple[Any, ...]) -> None:
    """Break off if this is the move or the file. For os.replace the event is `os.rename` too."""
    global moves_left
    is_move = event == "os.rename"
    if not is_move and (event, *arguments[1:2]) != ("open", "w"):
        return
    is_named = os.path.basename(str(arguments[is_move])) == os.environ["BREAK_FILE"]
    if moves_left >= 0 and (is_named or (is_move and not moves_left)):
        moves_left = -1
        end_process(int(os.environ["BREAK_BY"]))
    moves_left -= is_move


def end_process(by: int) -> None:
    """Send a signal to this process, or raise the error of a full disk."""
    if not by:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a file")
    os.kill(os.getpid(), signal.Signals(by))


sys.addaudithook(break_off)
