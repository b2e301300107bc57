"""A container as Kubernetes would run it: its security context, volumes, ports and probes."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from docker.stand_in import docker

ARBITRARY = "1000650000:0"  # OpenShift's restricted-v2 chooses such a user
# Where a cluster mounts the token of a service account that it knows the cloud's role of, read-only.
TOKEN = "/var/run/secrets/eks.amazonaws.com/serviceaccount"


@contextmanager
def running(
    pod: dict[str, Any], image: str, user: str, *options: str
) -> Iterator[tuple[str, dict[str, str]]]:
    """Start the container of a pod. Yield it, and the address of each port by name. `options` are Docker's."""
    [container] = pod["containers"]
    empty = tempfile.mkdtemp()  # what an optional Secret that is not there is mounted as
    os.chmod(empty, 0o755)
    sizes = {v["name"]: v.get("emptyDir", {}).get("sizeLimit") for v in pod["volumes"]}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    command = ["run", "--detach", "--read-only", "--cap-drop=ALL", "--user", user, *options]
    command += ["--security-opt=no-new-privileges", f"--shm-size={sizes['shm'].removesuffix('i')}"]
    own = {"/dev/shm", "/tmp"}
    mounted = [m["mountPath"] for m in container["volumeMounts"] if m["mountPath"] not in own]
    command += ["--tmpfs=/tmp:exec,mode=1777"]
    command += [f"--volume={empty}:{path}:ro" for path in [*mounted, TOKEN]]
    command += [f"--env={v['name']}={v['value']}" for v in container.get("env", [])]
    command += [f"--publish=127.0.0.1:0:{port['containerPort']}" for port in container["ports"]]
    name = docker(*command, image, *container.get("args", []))
    try:
        ports = {
            port["name"]: docker("port", name, str(port["containerPort"])).splitlines()[0]
            for port in container["ports"]
        }
        yield name, ports
    finally:
        print(docker("logs", "--tail=20", name))
        docker("rm", "--force", name)
        os.rmdir(empty)


def started(pod: dict[str, Any], address: str) -> bool:
    """Return whether the startup probe passes in its time, at the address of Triton's HTTP port."""
    probe = pod["containers"][0]["startupProbe"]
    for _ in range(probe["failureThreshold"]):
        try:
            with urlopen(f"http://{address}{probe['httpGet']['path']}", timeout=1) as answer:
                return bool(answer.status == 200)
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(probe["periodSeconds"] / 5)
    return False


def passes(pod: dict[str, Any], name: str, probe: str) -> bool:
    """Return whether a probe's command passes in the container."""
    command = pod["containers"][0][probe]["exec"]["command"]
    run = subprocess.run(["docker", "exec", name, *command], capture_output=True, text=True)
    print(probe, run.stdout, run.stderr)
    return run.returncode == 0
