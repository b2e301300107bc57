"""Messages about a running Triton: processes that died, and what steps log."""

from __future__ import annotations

import json

from triton_ensemble.serve.local import log as server_log
from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.stubs import Stubs


class Deaths:
    """Prints a line for each model of which a process has died."""

    def __init__(self, triton: LocalTriton) -> None:
        self._triton, self._stubs = triton, Stubs(triton.pid)

    def look(self, remedy: str) -> list[str]:
        """Return the models of which a process died since the last look, and print a line for each.

        The line ends with what to do.
        """
        dead = dict(self._stubs.find_dead())
        for model, cause in dead.items():
            print(
                f"{model}: its process has died ({cause}); {remedy}{self._why(model)}", flush=True
            )
        return list(dead)

    def _why(self, model: str) -> str:
        manifest = next(self._triton.repository.glob(f"{model}/*/step.json"), None)
        if not manifest:
            return ""
        facts = json.loads(manifest.read_text())
        return f"; to see why: make step NAME={facts.get('steps', [facts])[-1]['name']}"


class Follower:
    """Prints what steps log and print, as it comes."""

    def __init__(self, triton: LocalTriton) -> None:
        self._triton, self._log = triton, triton.log.open(errors="replace")
        self._rest = ""

    def look(self) -> None:
        """Print what is new."""
        *lines, self._rest = (self._rest + self._log.read()).split("\n")
        texts = [text for line in lines if (text := server_log.read_step_line(line)) is not None]
        if texts:
            print(self._triton.ours("\n".join(texts)), flush=True)
