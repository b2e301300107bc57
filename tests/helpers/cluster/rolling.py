"""The work of a cluster on the pods of a Deployment: kubelets, the endpoints of a Service, rolling updates.

The rules are those of Kubernetes, the times those of the manifest times a factor. What takes as long as the machine
needs is not scaled: how long a server loads, how long a probe may take.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable
from pathlib import Path

import yaml
from cluster.balancer import Balancer
from cluster.pods import Pod, Spec

PROPAGATION_S = 2.0  # until each node's rules have another set of endpoints
# What may be left out of the manifest.
PRE_STOP, PROBES, AGE = "preStop", "probes", "--grpc-max-connection-age"
TIMES = re.compile(rf"(--exit-timeout-secs|{AGE})=(\d+)")
LOOK_S = 0.02
LONG_MS = 2**31 - 1


class Kubelet:
    """Runs a pod: `ready` is what the API server knows of it, `changed` is called when that is another."""

    def __init__(
        self, pod: Pod, factor: float, without: set[str], changed: Callable[[], None]
    ) -> None:
        self.pod, self.ready = pod, False
        self._factor, self._without, self._changed = factor, without, changed
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        self.pod.start()
        if PROBES in self._without:
            self._set(True)
            return
        await self._asked("startupProbe", stop=lambda passed: passed)
        await asyncio.gather(
            self._asked("readinessProbe", each=self._set), self._asked("livenessProbe")
        )

    async def _asked(
        self,
        name: str,
        *,
        stop: Callable[[bool], bool] = lambda passed: False,
        each: Callable[[bool], None] | None = None,
    ) -> None:
        """Ask a probe until `stop`. Tell `each` what its threshold makes of it. RuntimeError at too many failures."""
        probe = self.pod.container[name]
        failures, threshold = 0, probe["failureThreshold"]
        while self.pod.process.poll() is None:
            passed = await self.pod.passes(probe)
            failures = 0 if passed else failures + 1
            if stop(passed):
                return
            if each and failures in (0, threshold):
                each(passed)
            if not each and failures == threshold:
                break
            await asyncio.sleep(probe["periodSeconds"] * self._factor)
        raise RuntimeError(
            f"{name} has failed {failures} times: {self.pod.log.read_text()[-2000:]}"
        )

    def _set(self, ready: bool) -> None:
        if ready != self.ready:
            self.ready = ready
            self._changed()

    def check(self) -> None:
        """Raise what has ended the pod."""
        if self._task.done() and not self._task.cancelled():
            self._task.result()

    async def end(self) -> bool:
        """End the pod as a deletion does. Return whether the grace period was too short."""
        self._task.cancel()
        self._set(False)
        grace_s = self.pod.spec["terminationGracePeriodSeconds"] * self._factor
        began = time.monotonic()
        if PRE_STOP not in self._without:
            sleep, seconds = self.pod.container["lifecycle"]["preStop"]["exec"]["command"]
            await self.pod.execute([sleep, str(int(seconds) * self._factor)], grace_s)
        return await self.pod.end(grace_s - (time.monotonic() - began))

    async def remove(self) -> None:
        """Leave nothing of it behind."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.pod.remove()


class Cluster:
    """The Deployment of a generated project, and its Service: the `balancer`.

    `without` names what is left out of the manifest: AGE for new pods, the others at once. `killed` counts pods whose
    grace period was too short.
    """

    def __init__(self, project: Path, factor: float = 1.0) -> None:
        text = (project / "deploy/kubernetes/base/deployment.yaml").read_text()
        self._deployment: Spec = yaml.safe_load(text)["spec"]
        given = TIMES.findall((project / "deploy/serve.sh").read_text() + text)
        self._times = {flag: math.ceil(int(value) * factor) for flag, value in given}
        self._project, self._factor = project, factor
        self.without: set[str] = set()
        self.balancer, self.killed = Balancer(), 0
        self.pods: list[Kubelet] = []
        self._ending: dict[Kubelet, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._ending.values():
            task.cancel()
        await self.balancer.close()
        for kubelet in (*self.pods, *self._ending):
            await kubelet.remove()

    async def start(self) -> None:
        """Run the replicas until all are ready, and their endpoints are known."""
        await self.restart()
        await asyncio.sleep(PROPAGATION_S * self._factor)

    async def restart(self) -> None:
        """Replace the pods as `kubectl rollout restart` does, until the new ones are ready."""
        replicas, strategy = self._deployment["replicas"], self._deployment["strategy"]
        surge, unavailable = (strategy["rollingUpdate"][n] for n in ("maxSurge", "maxUnavailable"))
        old = list(self.pods)
        while old or len(self._ready()) < replicas:
            while len(self.pods) < replicas + surge and len(self.pods) - len(old) < replicas:
                self._create()
            if old and len(self._ready()) > replicas - unavailable:
                self._delete(old.pop(0))
            for kubelet in self.pods:
                kubelet.check()
            await asyncio.sleep(LOOK_S)

    def _ready(self) -> list[Kubelet]:
        return [kubelet for kubelet in self.pods if kubelet.ready]

    def _create(self) -> None:
        times = {**self._times, **dict.fromkeys(self.without & {AGE}, LONG_MS)}
        flags = [f"{flag}={value}" for flag, value in times.items()]
        pod = Pod(self._project, self._deployment["template"]["spec"], flags)
        self.pods.append(Kubelet(pod, self._factor, self.without, self._publish))

    def _delete(self, kubelet: Kubelet) -> None:
        self.pods.remove(kubelet)
        self._ending[kubelet] = asyncio.create_task(self._ended(kubelet))

    async def _ended(self, kubelet: Kubelet) -> None:
        self.killed += await kubelet.end()
        await kubelet.remove()
        del self._ending[kubelet]

    def _publish(self) -> None:
        """Tell the nodes which pods are ready now, which they know after a while."""
        addresses = {kubelet.pod.address for kubelet in self._ready()}
        loop = asyncio.get_running_loop()
        loop.call_later(PROPAGATION_S * self._factor, self._set_endpoints, addresses)

    def _set_endpoints(self, addresses: set[str]) -> None:
        self.balancer.endpoints = addresses
