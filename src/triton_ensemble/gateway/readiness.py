"""Whether the pipeline answers: an inference says so, since a server that says so may have lost a model's process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from triton_ensemble.client import Package

KEPT_S = 2.0  # however many ask, Triton is asked once in that time
TIMEOUT_S = 8.0


class Readiness:
    """Asks by `ask(timeout_s)`; a refusal of what the template made up is an answer, too, if `made_up`."""

    def __init__(
        self, ask: Callable[[float], Awaitable[object]], client: Package, *, made_up: bool
    ) -> None:
        self._ask, self._client, self._made_up = ask, client, made_up
        self._asked_at, self._problem = -KEPT_S, ""
        self._turn = asyncio.Lock()

    async def problem(self) -> str:
        """Return why the pipeline does not answer; empty where it does."""
        async with self._turn:
            if time.monotonic() - self._asked_at >= KEPT_S:
                self._problem = await self._find_problem()
                self._asked_at = time.monotonic()
            return self._problem

    async def _find_problem(self) -> str:
        try:
            await self._ask(TIMEOUT_S)
        except self._client.InvalidInput:
            return "" if self._made_up else "the pipeline refuses the first of samples/"
        except self._client.InferenceError as error:
            return type(error).__name__
        return ""
