"""`make ray` and `make ray-test`: what they print, and what is left when they end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from ray.exceptions import GetTimeoutError
from rayserve.cluster import cluster, eventually, is_alive, waiting
from support import SOURCES, UNUSUAL, Generate, Project, run, step, succeed, variables

from triton_ensemble.deploy.ray.served import deploy_application
from triton_ensemble.serve.container.inference import DIRECT
from triton_ensemble.serve.local.ports import free_ports, is_taken
from triton_ensemble.serve.local.process import ServerError


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    """Return the default project with Ray, its model repository complete."""
    project = generate.complete(extras=["gateway", "ray"])
    return project


def environment() -> dict[str, str]:
    path = os.pathsep.join(["src", str(SOURCES), os.environ.get("PYTHONPATH", "")])
    return variables(PYTHONPATH=path, RAY_AUTH_MODE="disabled")


def ray(project: Project, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "triton_ensemble", "ray", "--port=0", *options)
    return run(*command, cwd=project.path, **environment(), **more)


def run_ray_test(project: Project) -> list[str]:
    """Return the lines of `make ray-test` that are its own, if it succeeds."""
    lines = succeed(ray(project, "--replicas=1", "--test")).splitlines()
    return [line for line in lines if re.fullmatch(r"[\w-]+: \w+", line)]


def test_the_smoke_tests_pass(project: Project) -> None:
    assert run_ray_test(project) == [
        f"{n}: answered" for n in ("digit-7-png", "digit-7", "digits-2-6")
    ]


def test_a_decoupled_pipeline_answers_by_events(generate: Generate) -> None:
    """Also where Ray Serve alone serves REST: there is the application, and no container of the gateway."""
    steps = [step("llm", {"i": "PROMPT"}, {"o": "TEXT"}, decoupled=True)]
    project = generate(**UNUSUAL["decoupled"] | {"gpu_count": 0, "steps": steps, "extras": ["ray"]})
    assert (project / "gateway/routes.py").exists()
    assert not (project / "deploy/gateway.Dockerfile").exists()
    succeed(project.make("repository"))
    assert run_ray_test(project) == ["stub: answered"]


@contextmanager
def served(project: Project) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run `make ray`, and yield its URL."""
    command = [sys.executable, "-m", "triton_ensemble", "ray", "--port=0", "--replicas=1"]
    with TemporaryFile("w+b") as out, subprocess.Popen(
        command, cwd=project.path, env=environment(), stdout=out, start_new_session=True
    ) as process:  # fmt: skip

        def url() -> str:
            assert process.poll() is None
            out.seek(0)
            found = re.search(r"at (http:\S+); Ctrl-C stops it", out.read().decode())
            return found[1] if found else ""

        try:
            yield process, eventually(url, 300)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def descendants(process: int) -> set[int]:
    """Return the processes that a process has started, and those that they have."""
    lines = succeed(run("ps", "-e", "-o", "pid=,ppid=", cwd=Path("/"))).splitlines()
    parents = {int(own): int(parent) for own, parent in map(str.split, lines)}

    def below(parent: int) -> set[int]:
        children = {own for own, its_parent in parents.items() if its_parent == parent}
        return children.union(*map(below, children))

    return below(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_all_that_it_started(project: Project, number: int) -> None:
    with served(project) as (process, url):
        assert DIRECT.open(f"{url}/readyz", timeout=30).status == 200
        started = descendants(process.pid)
        assert len(started) > 5
        # A terminal sends Ctrl-C to all of its processes.
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        assert process.wait(30) == 0  # 8 s on a busy machine; docs/ray.md says 10
        eventually(lambda: not [one for one in started if is_alive(one)], 2)


def test_a_cluster_that_runs_is_used_and_stays(project: Project) -> None:
    ports = free_ports(dict.fromkeys(("gcs", "client", "dashboard", "agent"), 0))
    options = [f"--port={ports['gcs']}", f"--ray-client-server-port={ports['client']}"]
    options += [f"--dashboard-agent-listen-port={ports['agent']}", "--include-dashboard=false"]
    command = [
        sys.executable,
        "-m",
        "ray.scripts.scripts",
        "start",
        "--head",
        "--num-cpus=2",
        "--block",
    ]
    with subprocess.Popen(
        [*command, *options], cwd=project.path, env=environment(), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            eventually(lambda: is_taken(ports["gcs"]))
            address = f"127.0.0.1:{ports['gcs']}"
            for _ in range(2):
                run = ray(project, "--replicas=1", "--test", RAY_ADDRESS=address)
                assert succeed(run).count("answered") == 3
            assert process.poll() is None
        finally:
            process.terminate()
            process.wait(180)


def edited(project: Project, path: Path, before: str, after: str) -> Project:
    """Return a copy of a project with other text in deploy/ray/serve.yaml."""
    succeed(run("cp", "-r", str(project.path), str(path), cwd=project.path))
    file = path / "deploy/ray/serve.yaml"
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))
    return Project(path)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (
            "max_queued_requests",
            "max_queue_requests",
            "applications.0.deployments.0.max_queue_requests: Ray Serve does not know it, and would "
            "ignore it; drop it, or did you mean max_queued_requests?",
        ),
        (
            "target_ongoing_requests",
            "target_requests",
            "applications.0.deployments.0.autoscaling_config.target_requests: Ray Serve does not know "
            "it, and would ignore it; drop it, or did you mean target_ongoing_requests?",
        ),
        (
            "num_cpus: 1",
            "num_cpu: 1",
            "applications.0.deployments.0.ray_actor_options.num_cpu: Ray Serve does not know it, and "
            "would ignore it; drop it, or did you mean num_cpus?",
        ),
        (
            "max_replicas: 4",
            "max_replicas: 0",
            "applications.0.deployments.0.autoscaling_config.max_replicas: Input should be greater "
            "than 0",
        ),
        ("applications:", "apps:", "applications: Field required"),
    ],
)
def test_settings_that_ray_would_ignore_or_refuse(
    project: Project, tmp_path: Path, before: str, after: str, problem: str
) -> None:
    changed = edited(project, tmp_path / "p", before, after)
    refused = ray(changed, "--test")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"deploy/ray/serve.yaml: {problem}\n"


def test_what_is_not_there_is_a_line(generate: Generate) -> None:
    refused = ray(generate(extras=["gateway"]))
    assert refused.returncode == 2
    assert refused.stderr == "deploy/ray/serve.yaml: not there; add ray to extras in pipeline.yml\n"


@pytest.mark.parametrize(
    ("settings", "options", "wanted"),
    [("num_gpus: 2", ["--replicas=1"], "2 GPU"), ("num_cpus: 1", ["--replicas=999"], "1 CPU")],
)
def test_a_machine_without_what_a_replica_asks_for_is_a_line(
    project: Project, tmp_path: Path, settings: str, options: list[str], wanted: str
) -> None:
    own = Project(Path(shutil.copytree(project.path, tmp_path / "p")))
    file = own / "deploy/ray/serve.yaml"
    file.write_text(file.read_text().replace("num_cpus: 1", settings))
    process = ray(own, "--test", *options)
    assert process.returncode == 1
    assert f"replicas of {wanted} each, and this machine has " in process.stderr


def test_no_ray_at_the_address_is_a_line(project: Project) -> None:
    failed = ray(project, "--test", RAY_ADDRESS="127.0.0.1:1")
    assert failed.returncode == 1
    problem = "RAY_ADDRESS is 127.0.0.1:1, where no Ray answers; write HOST:PORT of a head"
    assert failed.stderr.splitlines()[-1] == problem
    assert "Traceback" not in failed.stderr


def test_a_proxy_that_does_not_start_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray Serve kills a proxy that a busy machine starts slowly. What then comes of it depends on the machine."""

    def fail(**_: Any) -> None:
        raise GetTimeoutError("it was killed\nThe actor never ran.")

    monkeypatch.setenv("RAY_ADDRESS", "a cluster")
    monkeypatch.setattr("ray.serve.start", fail)
    app = {"name": "a", "deployments": [{"name": "Pipeline"}]}
    with pytest.raises(ServerError, match=r"proxy did not start: The actor never ran\. If"):
        deploy_application({"applications": [app]}, 1, 1)


def test_a_proxy_that_takes_longer_than_ray_waits_is_waited_for(
    generate: Generate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.serve._private.api.HTTP_PROXY_TIMEOUT", 0.1)
    monkeypatch.setattr("ray.serve._private.client.HTTP_PROXY_TIMEOUT", 0.0)
    with cluster(waiting(generate), 2) as service:
        service.deploy(1)
        assert service.ask(1).json()["OUTPUT"] == [[2]]


MORE = "  - { name: b, route_prefix: /b, import_path: 'a:b', deployments: [] }\n"


def test_settings_of_one_application(project: Project, tmp_path: Path) -> None:
    changed = edited(project, tmp_path / "p", "applications:\n", f"applications:\n{MORE}")
    problem = "applications: write one, with one deployment, Pipeline"
    assert problem in ray(changed, "--test").stderr


def test_a_step_that_fails_is_named(generate: Generate) -> None:
    project = waiting(generate)
    file = project / "steps/wait.py"
    file.write_text(
        file.read_text().replace("        pass", "        raise RuntimeError('no such GPU')")
    )
    succeed(project.make("repository"))
    failed = ray(project, "--test", "--replicas=1")
    assert failed.returncode == 1
    assert "failed to load 'wait'" in failed.stderr
    assert "no such GPU" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_images_from_prompts(generate: Generate) -> None:
    """A step that calls other models, and optional inputs."""
    project = generate.complete(starting_pipeline="text-to-image", extras=["gateway", "ray"])
    assert run_ray_test(project) == [f"{n}: answered" for n in ("fox", "probe", "seeds")]
