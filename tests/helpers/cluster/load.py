"""Clients that ask a server until their input ends, and count: the generated project's own client, and its retries.

There are two for each URL, which keep their connections. Those of `--new` make one for each request.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triton_ensemble.facts.client import package
from triton_ensemble.facts.project import Project
from triton_ensemble.testing.files import samples

REQUESTS, RETRIES, LOST = "requests", "retries", "lost"


class Asking(threading.Thread):
    """A client at a `url`, `rate` times a second. `kept`: it keeps its connection. `counts` says how that went.

    The client's pauses before a retry are taken times `factor`, as the times of the cluster are.
    """

    def __init__(
        self, project: Project, url: str, *, kept: bool, rate: float, factor: float
    ) -> None:
        super().__init__()
        scheme = url.partition(":")[0]
        self.name = f"{scheme}, {'kept' if kept else 'new'} connections"
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self._project, self._url, self._kept = project, url, kept
        self._pause_s, self._factor = 1 / rate, factor
        self.stop = threading.Event()

    def _client(self) -> Any:
        counts, factor = self.counts, self._factor
        base: Any = package(self._project).Client

        class Counting(base):  # type: ignore[misc]
            async def _pause(self, seconds: float) -> None:
                counts[RETRIES] += 1
                await super()._pause(seconds * factor)

        return Counting(self._url)

    def run(self) -> None:
        inputs = samples(self._project)[0].inputs
        client = self._client()
        while not self.stop.wait(self._pause_s):
            self._ask(client, inputs)
            if not self._kept:
                client.close()
                client = self._client()
        client.close()

    def _ask(self, client: Any, inputs: Mapping[str, Any]) -> None:
        self.counts[REQUESTS] += 1
        try:
            client.infer(inputs)
        except Exception as error:  # whatever it is, the request is lost
            self.counts[LOST] += 1
            self.reasons[f"{type(error).__name__}: {str(error)[:100]}"] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("project", type=Path)
    parser.add_argument("urls", nargs="+")
    parser.add_argument("--rate", type=float, default=4.0)
    parser.add_argument("--factor", type=float, default=1.0)
    parser.add_argument("--new", action="store_true", help="connections")
    options = parser.parse_args()
    project = Project.load(options.project)
    pace = {"kept": not options.new, "rate": options.rate, "factor": options.factor}
    threads = [Asking(project, url, **pace) for url in options.urls * 2]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    for thread in threads:
        thread.stop.set()
    for thread in threads:
        thread.join()
    print(json.dumps([{"name": t.name, **t.counts, "reasons": t.reasons} for t in threads]))


if __name__ == "__main__":
    main()
