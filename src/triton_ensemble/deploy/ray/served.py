"""The application on a Ray of this machine, or on the cluster that RAY_ADDRESS names."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

import ray
from ray import serve
from ray.exceptions import RayError
from ray.serve.schema import ProxyStatus

from triton_ensemble.deploy.ray.replica import Pipeline
from triton_ensemble.deploy.ray.settings import FILE
from triton_ensemble.serve.local.ports import HOST
from triton_ensemble.serve.local.process import ServerError, interruptible

CONNECT_S = 5.0
PROXY_S = 300.0
TRIES = 3  # starts of a replica, before what its Triton says is the answer


@contextlib.contextmanager
def serve_application(settings: Mapping[str, Any], port: int, replicas: int) -> Iterator[str]:
    """Yield the URL of the application that settings describe, or raise ServerError if it can't start."""
    address = os.environ.get("RAY_ADDRESS", "local")
    own = {} if "RAY_ADDRESS" in os.environ else {"include_dashboard": False}
    # What all processes of Ray have to say is in its logs.
    if not own:
        _answers(address)
    ray.init(address, log_to_driver=False, logging_level=logging.WARNING, **own)
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    interruptible()  # Ray has set handlers of its own
    if serve.status().proxies:  # their port can't be changed, and is not ours
        ray.shutdown()
        raise ServerError(
            f"Ray Serve runs at {address} already; deploy it there: serve deploy deploy/ray/serve.yaml"
        )
    try:
        yield deploy_application(settings, port, replicas)
    finally:
        if (name := settings["applications"][0]["name"]) in serve.status().applications:
            serve.delete(name)  # once replicas have answered what they began
        if not own and not serve.status().applications:
            serve.shutdown()  # the cluster is as it was
        ray.shutdown()


def deploy_application(settings: Mapping[str, Any], port: int, replicas: int) -> str:
    """Deploy the application on the Ray that this process is connected to, and return its URL."""
    [app] = settings["applications"]
    [options] = app["deployments"]
    if replicas:
        options = {**options, "num_replicas": replicas, "autoscaling_config": None}
    if "RAY_ADDRESS" not in os.environ:
        _check_resources(options, replicas or 1)
    # A Ray of one's own is for this machine.
    host = {} if "RAY_ADDRESS" in os.environ else {"host": HOST}
    http = {**settings.get("http_options", {}), **host, "port": port}
    try:
        with _wait_for_proxies():
            serve.start(proxy_location=settings.get("proxy_location"), http_options=http)
    except RayError as error:
        reason = str(error).splitlines()[-1]
        advice = "If the machine is busy, set RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S=120"
        raise ServerError(f"Ray Serve's proxy did not start: {reason} {advice}") from None
    deployment = Pipeline.options(**options, max_constructor_retry_count=TRIES)
    try:
        with _wait_for_proxies():
            serve.run(
                deployment.bind(), name=app["name"], route_prefix=app.get("route_prefix", "/")
            )
    except RuntimeError as error:
        said = serve.status().applications[app["name"]].deployments[options["name"]].message
        reason = said.rpartition(f"{ServerError.__name__}: ")[2].strip()
        raise ServerError(reason or str(error)) from None
    return f"http://{HOST}:{port}"


@contextlib.contextmanager
def _wait_for_proxies() -> Iterator[None]:
    """Wait for proxies longer than Ray Serve's own 60 s, which a busy machine exceeds, or raise ServerError."""
    try:
        yield
    except RayError:
        raise
    except TimeoutError:
        end = time.monotonic() + PROXY_S
        while set(serve.status().proxies.values()) != {ProxyStatus.HEALTHY}:
            if time.monotonic() > end:
                raise ServerError(f"Ray Serve's proxy did not start in {PROXY_S:g} s") from None
            time.sleep(1)


def _check_resources(options: Mapping[str, Any], replicas: int) -> None:
    """Raise ServerError if this machine lacks what replicas ask for: Ray would wait for it without end."""
    wanted, there = options.get("ray_actor_options", {}), ray.cluster_resources()
    for resource, asked in (("CPU", wanted.get("num_cpus", 1)), ("GPU", wanted.get("num_gpus", 0))):
        if asked * replicas > (has := there.get(resource, 0)):
            what = f"{replicas} replicas of {asked} {resource} each, and this machine has {has:g}"
            raise ServerError(
                f"{FILE}: asks for {what}; start fewer, or set RAY_ADDRESS to a cluster"
            )


def _answers(address: str) -> None:
    """Raise ServerError if nothing listens at HOST:PORT, because Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_S).close()
    except (OSError, ValueError):
        wanted = "where no Ray answers; write HOST:PORT of a head"
        raise ServerError(f"RAY_ADDRESS is {address}, {wanted}") from None
