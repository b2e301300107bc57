"""Whether the pipeline is ready, as several ask at once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from triton_ensemble.gateway.predict import Readiness


class Late(Exception):
    """The pipeline does not answer."""


CLIENT = SimpleNamespace(InvalidInput=ValueError, InferenceError=Late)


def test_a_probe_during_another_waits_for_its_answer() -> None:
    async def main() -> None:
        asked = 0

        async def ask(_: float) -> None:
            nonlocal asked
            asked += 1
            await asyncio.sleep(0)
            raise Late

        readiness = Readiness(ask, CLIENT, made_up=False)
        problems = await asyncio.gather(readiness.problem(), readiness.problem())
        assert [*problems] == ["Late", "Late"]
        assert asked == 1

    asyncio.run(main())
