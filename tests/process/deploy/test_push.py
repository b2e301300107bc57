"""`make push`: versions of the model repository in a bucket, what names them, and a Triton that is started from there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from urllib.request import Request, urlopen

import boto3
import pytest
from bucket import Store, store
from support import NOWHERE, SOURCES, VENV, Generate, Project, call, succeed, variables
from web import Handler, serve_http

from triton_ensemble.serve.local import environment
from triton_ensemble.serve.local.ports import free_ports

ALL = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "sts:*", "Principal": {"AWS": "*"}}],
}
MODEL = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
# Gives the process a /tmp of its own, with 64 kB.
SMALL = """
import ctypes, os, triton_ensemble.serve.container.serve
c = ctypes.CDLL(None, use_errno=True)
if c.unshare(0x10020000) or c.mount(b"none", b"/tmp", b"tmpfs", 0, b"size=64k"):
    raise SystemExit(os.strerror(ctypes.get_errno()))
"""
SERVE = "import sys; from triton_ensemble.serve.container.serve import main; main(sys.argv[1:])"


@pytest.fixture(scope="module")
def s3() -> Iterator[Store]:
    with store() as running:
        yield running


@pytest.fixture(scope="module")
def built(generate: Generate) -> Project:
    project = generate.complete(extras=["kubernetes"])
    return project


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Project:
    return Project(Path(shutil.copytree(built.path, tmp_path / "p")))


def push(
    project: Project, s3: Store, to: str = "", *words: str, **more: str
) -> subprocess.CompletedProcess[str]:
    s3.requests.clear()
    to = to or f"s3://{s3.url}/models/{project.path.parent.name}"
    return project.make("push", f"TO={to}", *words, **{**s3.keys, **more})


def prefix(project: Project) -> str:
    return project.path.parent.name


def line(process: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a push that failed says, without make's own."""
    assert process.returncode
    [said] = [text for text in process.stderr.splitlines() if not text.startswith("make")]
    return said


def test_a_version_is_complete_and_the_next_has_what_changed(project: Project, s3: Store) -> None:
    said = succeed(push(project, s3))
    local = {
        str(path.relative_to(project / "model_repository")): path.stat().st_size
        for path in (project / "model_repository").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.name != ".built"
    }
    at = prefix(project)
    there = s3.keys_in("models", f"{at}/1/")
    assert there == {f"{at}/1/{name}": size for name, size in local.items()}
    assert all(size for size in there.values())
    assert s3.put()[-1] == f"{at}/1.json"
    assert f"/models/{at}/1: complete; {len(local)} uploaded" in said
    listed = json.loads(s3.client().get_object(Bucket="models", Key=f"{at}/1.json")["Body"].read())
    assert {name: each["size"] for name, each in listed["files"].items()} == local

    assert "already has this repository; nothing was uploaded" in succeed(push(project, s3))
    assert s3.put() == s3.put("COPY") == []

    step = project / "steps/label.py"
    step.write_text(step.read_text() + "# changed\n")
    said = succeed(push(project, s3))
    assert s3.put() == [f"{at}/2.claim", f"{at}/2/label/1/steps/label.py", f"{at}/2.json"]
    assert len(s3.put("COPY")) == len(local) - 1
    assert f"{at}/2: complete; 1 uploaded, {len(local) - 1} copied" in said
    assert s3.keys_in("models", f"{at}/1/") == there


@pytest.mark.slow
def test_a_version_of_a_number(project: Project, s3: Store) -> None:
    succeed(push(project, s3, "", "VERSION=7"))
    assert "already" in succeed(push(project, s3, "", "VERSION=7"))
    step = project / "steps/label.py"
    step.write_text(step.read_text() + "# changed\n")
    assert "/7: is complete, with other files" in line(push(project, s3, "", "VERSION=7"))
    assert "/8: complete" in succeed(push(project, s3))


@pytest.mark.slow
def test_an_interrupted_push_is_gone_on_with(project: Project, s3: Store) -> None:
    command = project.make_command("push", f"TO=s3://{s3.url}/models/{prefix(project)}")
    s3.requests.clear()
    environ = variables(PYTHONPATH=f"src:{SOURCES}", **s3.keys)
    process = subprocess.Popen(
        command, cwd=project.path, env=environ, start_new_session=True, stderr=subprocess.DEVNULL
    )

    def interrupt(count: int) -> None:
        if count > 12:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.2)

    s3.before_put = interrupt
    try:
        process.wait(60)
    finally:
        s3.before_put = lambda count: None
    assert process.returncode
    at = prefix(project)
    time.sleep(1)
    left = s3.keys_in("models", f"{at}/")
    assert left.pop(f"{at}/1.claim")
    assert left
    assert f"{at}/1.json" not in left
    gone = {"Bucket": "models", "Key": f"{at}/1/gone/config.pbtxt", "Body": b"x"}
    s3.client().put_object(**gone, Metadata={"sha256": "0"})  # of a model that has left since
    said = succeed(push(project, s3))
    assert f"{len(left)} there from a push that was interrupted" in said
    assert not {*left} & {*s3.put()}
    assert f"{at}/1/gone/config.pbtxt" not in s3.keys_in("models", f"{at}/")
    assert "already" in succeed(push(project, s3))


def test_the_parts_that_a_killed_push_left_are_removed(project: Project, s3: Store) -> None:
    """Expect no file of another version to be touched, for its push may still run."""
    client, at = s3.client(), prefix(project)
    for version in ("1", "2"):
        client.create_multipart_upload(Bucket="models", Key=f"{at}/{version}/label/1/weights.bin")
    assert "complete" in succeed(push(project, s3))
    [left] = client.list_multipart_uploads(Bucket="models", Prefix=f"{at}/")["Uploads"]
    assert left["Key"] == f"{at}/2/label/1/weights.bin"


@pytest.mark.slow
def test_two_pushes_at_once_are_two_versions(project: Project, s3: Store, tmp_path: Path) -> None:
    other = Project(Path(shutil.copytree(project.path, tmp_path / "other")))
    with (other / "steps/label.py").open("a") as step:
        step.write("# changed\n")
    there = f"s3://{s3.url}/models/{prefix(project)}"
    said = []

    def push_other(count: int) -> None:
        if count == 5:  # the first has uploaded some files
            said.append(succeed(other.make("push", f"TO={there}", **s3.keys)))

    s3.before_put = push_other
    try:
        first = succeed(push(project, s3))
    finally:
        s3.before_put = lambda count: None
    assert f"{there}/1: complete" in first
    assert f"{there}/2: complete" in said[0]
    for folder, version in ((project, 1), (other, 2)):
        key = f"{prefix(project)}/{version}/label/1/steps/label.py"
        stored = s3.client().get_object(Bucket="models", Key=key)["Body"].read()
        assert stored == (folder / "steps/label.py").read_bytes()


@pytest.mark.slow
def test_a_number_that_another_push_has_begun_is_not_taken(project: Project, s3: Store) -> None:
    claim = {"Bucket": "models", "Key": f"{prefix(project)}/3.claim", "Body": b"of other files"}
    s3.client().put_object(**claim)
    assert "/3: another push" in line(push(project, s3, "", "VERSION=3"))
    s3.has_conditions = False  # as in some stores other than AWS
    try:
        assert "/4: complete" in succeed(push(project, s3, "", "VERSION=4"))
    finally:
        s3.has_conditions = True


@pytest.mark.slow
def test_files_of_others_are_left_alone(project: Project, s3: Store) -> None:
    at = prefix(project)
    s3.client().put_object(Bucket="models", Key=f"{at}/1/net/config.pbtxt", Body=b"x")
    assert "has files that no push wrote, such as net/config.pbtxt" in line(push(project, s3))
    assert [*s3.keys_in("models", f"{at}/")] == [f"{at}/1/net/config.pbtxt"]
    succeed(push(project, s3, "", "VERSION=2"))
    assert "/2: already has this repository" in succeed(push(project, s3))


def test_what_names_it_names_the_new_version(project: Project, s3: Store) -> None:
    at, deploy = prefix(project), project / "deploy"
    (deploy / "kserve").mkdir()
    names = {
        "kserve/own.yaml": f'storageUri: "s3://models/{at}/3/"\n',
        "compose.override.yaml": f"A: s3://https://other:9000/models/{at}/12\nB: s3://models/{at}2/3\n"
        f"C: s3://models/{at}/3/label\nD: s3://models/{at}/3x\n",
        "managed.yaml": f"# Managed by triton-ensemble-template\n# s3://models/{at}/3\n",
    }
    for name, text in names.items():
        (deploy / name).write_text(text)
    said = succeed(push(project, s3, "", "VERSION=41"))
    assert (deploy / "kserve/own.yaml").read_text() == f'storageUri: "s3://models/{at}/41/"\n'
    assert (deploy / "managed.yaml").read_text() == names["managed.yaml"]
    expected = names["compose.override.yaml"].replace("/12\n", "/41\n")
    assert (deploy / "compose.override.yaml").read_text() == expected
    assert said.splitlines()[-2:] == [
        f"deploy/compose.override.yaml:1: s3://https://other:9000/models/{at}/41",
        f"deploy/kserve/own.yaml:1: s3://models/{at}/41/",
    ]


def test_where_nothing_names_it_what_to_write_is_said(project: Project, s3: Store) -> None:
    said, at = succeed(push(project, s3)), prefix(project)
    assert f"MODEL_REPOSITORY=s3://{s3.url}/models/{at}/1 " in said
    assert f"storageUri: s3://models/{at}/1/ " in said
    assert "deploy/kubernetes/kustomization.yaml" in said


@pytest.mark.slow
def test_the_line_of_the_components_bucket_is_the_owners(project: Project, s3: Store) -> None:
    name = "image-classification"
    said = succeed(push(project, s3, f"s3://models/{name}", "VERSION=5", AWS_ENDPOINT_URL=s3.url))
    own = (project / "deploy/kubernetes/kustomization.yaml").read_text()
    assert f"MODEL_REPOSITORY=s3://models/{name}/5\n" in own
    assert f": s3://models/{name}/5\n" in said


@pytest.mark.parametrize(
    ("to", "more", "expected"),
    [
        ("s3://URL/absent/p", {}, "there is no such bucket"),
        (f"s3://http://127.0.0.1:{NOWHERE}/models/p", {}, "can't be reached: [Errno 111]"),
        ("s3://https://HOST/models/p", {}, "can't be reached: "),
        ("s3://http://no-such-host.invalid:80/models/p", {}, "can't be reached: "),
        ("s3://URL/models", {}, "a prefix is missing"),
        ("s3://URL/my_models/p", {}, "the bucket's name is not one that Triton can read"),
        ("s3://Models/p", {}, "the bucket's name is not one that Triton can read"),
        ("s3://models/a+b", {}, "the prefix 'a+b' is none"),
        ("s3://http://127.0.0.1/models/p", {}, "the port too"),
        ("models/p", {}, "is not an address in S3; write s3://BUCKET/PREFIX"),
        ("s3://https://me:s3cret@HOST/models/p", {}, "s3://***@127.0.0.1"),
        ("s3://me:s3/cret@HOST/models/p", {}, "s3://***@127.0.0.1"),
        ("s3://models/p", {"AWS_ENDPOINT_URL": "ftp://me:s3cret@h"}, "ftp://***@h is not a URL"),
        ("", {}, "say where to: make push TO=s3://bucket/prefix"),
        (
            "s3://models/p",
            {"AWS_ENDPOINT_URL": "127.0.0.1:1"},
            "is not a URL; write https://HOST:PORT",
        ),
        (
            "s3://URL/models/p",
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": "/nowhere"},
            "there is no key; set AWS_ACCESS_KEY_ID",
        ),
    ],
)
def test_what_can_not_be_is_one_line_at_once(
    built: Project, s3: Store, to: str, more: dict[str, str], expected: str
) -> None:
    to = to.replace("URL", s3.url).replace("HOST", f"127.0.0.1:{s3.port}")
    start = time.monotonic()
    said = call(built, "push", *filter(None, [to]), **{**s3.keys, **more})
    assert said.status
    [text] = said.err.splitlines()
    assert expected in text
    assert time.monotonic() - start < 15


def test_a_wrong_version_is_refused(built: Project, s3: Store) -> None:
    assert "write a number from 1 on" in line(push(built, s3, "", "VERSION=0"))


def test_what_the_check_refuses_is_not_pushed(project: Project, s3: Store) -> None:
    config = project / "model_repository/label/config.pbtxt"
    config.write_text(config.read_text().replace('backend: "python"', 'backend: "pyton"'))
    assert "model_repository/label/config.pbtxt:" in line(push(project, s3))
    assert s3.requests == []


@pytest.mark.slow
def test_what_a_bucket_would_lose_is_not_pushed(project: Project, s3: Store) -> None:
    (project / "steps/helpers").mkdir()
    (project / "steps/helpers/__init__.py").touch()
    process = push(project, s3)
    assert "steps/helpers/__init__.py: is empty, and KServe" in process.stderr
    (project / "steps/helpers/__init__.py").write_text("# helpers\n")
    (project / "model_repository/image_classification/2").mkdir()
    assert "model_repository/image_classification/2: is empty, and a bucket" in line(
        push(project, s3)
    )
    assert s3.requests == []


def test_no_key_is_written(project: Project, s3: Store) -> None:
    said = succeed(push(project, s3))
    texts = [path.read_bytes() for path in project.path.rglob("*") if path.is_file()]
    for key in s3.keys_in("models", f"{prefix(project)}/"):
        texts.append(s3.client().get_object(Bucket="models", Key=key)["Body"].read())
    for value in (s3.keys["AWS_ACCESS_KEY_ID"], s3.keys["AWS_SECRET_ACCESS_KEY"]):
        assert value not in said
        assert not any(value.encode() in text for text in texts)


@contextmanager
def triton(
    repository: str, folder: Path, **more: str
) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """Start the local Triton as the container does, from a bucket. Yield its process, URL and log."""
    wheel = environment.site_packages() / "pytriton/tritonserver"
    environment.copy_backends(wheel, folder / "backends", ())
    ports = free_ports(dict.fromkeys(("http", "grpc", "metrics"), 0))
    flags = [
        f"--{api}-{what}"
        for api, port in ports.items()
        for what in (f"port={port}", "address=127.0.0.1")
    ]
    more = environment.variables() | more
    more |= {"PYTHONPATH": str(SOURCES), "PATH": f"{wheel / 'bin'}:{more['PATH']}"}
    log = folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, f"--model-repository={repository}", f"--backend-directory={folder / 'backends'}",
             "--disable-auto-complete-config", *flags],
            stdout=file, stderr=file, env=more,
        )  # fmt: skip
    try:
        yield process, f"http://127.0.0.1:{ports['http']}", log
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.slow
def test_triton_loads_what_was_pushed_and_answers(
    project: Project, s3: Store, tmp_path: Path
) -> None:
    succeed(push(project, s3))
    address = f"s3://{s3.url}/models/{prefix(project)}/1"
    with triton(address, tmp_path, **s3.keys) as (process, url, log):
        wait_until_ready(process, url, log)
        assert "LABEL: 7" in succeed(project.make("infer", TRITON_URL=url))


@pytest.mark.slow
def test_a_bucket_that_is_larger_than_tmp_is_a_line(
    project: Project, s3: Store, tmp_path: Path
) -> None:
    succeed(push(project, s3))
    address = f"s3://{s3.url}/models/{prefix(project)}/1"
    assert started(address, tmp_path, s3.keys).returncode == 0
    done = started(address, tmp_path, s3.keys, SMALL)
    if "Operation not permitted" in done.stderr:
        pytest.skip("this user may not mount a file system")
    [said] = done.stderr.splitlines()
    assert said.startswith(f"MODEL_REPOSITORY: {address}: has ")
    assert "Triton copies it to /tmp, which has 0.0 GB free; make room there" in said


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    for _ in range(120):
        assert process.poll() is None, log.read_text()
        try:
            with urlopen(f"{url}/v2/health/ready", timeout=1):
                return
        except OSError:
            time.sleep(0.25)
    raise AssertionError(log.read_text())


@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        ("s3://URL/models/none", "there is no file; compare the prefix"),
        ("s3://URL/absent/p", "there is no such bucket"),
        (f"s3://127.0.0.1:{NOWHERE}/models/p", "can't be reached: [Errno 111] Connection refused"),
        ("s3://https://HOST/models/p", "can't be reached: "),
        (
            "s3://URL/models/versions",
            "has versions of a model repository; name one: s3://URL/models/versions/12",
        ),
        ("s3://HOST/My_models/p", "the bucket's name is not one that Triton can read"),
        ("s3://", "the bucket's name is missing"),
        ("s3://JUNK/models/p", "JUNK is not S3; compare host and port"),
    ],
)
def test_a_server_that_can_not_read_its_bucket_says_so_at_once(
    s3: Store, tmp_path: Path, repository: str, expected: str
) -> None:
    for name in ("9.json", "12.json", "12/net/config.pbtxt"):
        s3.client().put_object(Bucket="models", Key=f"versions/{name}", Body=b"x")
    with another_protocol() as junk:
        for name, place in {"URL": s3.url, "HOST": f"127.0.0.1:{s3.port}", "JUNK": junk}.items():
            repository, expected = (t.replace(name, place) for t in (repository, expected))
        start = time.monotonic()
        process = started(repository, tmp_path, s3.keys)
    assert process.returncode == 1
    [said] = process.stderr.splitlines()
    assert said.startswith("MODEL_REPOSITORY: ")
    assert expected in said
    assert time.monotonic() - start < 5


@contextmanager
def another_protocol() -> Iterator[str]:
    """Answer as a server that does not speak HTTP. Yield its host and port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1000)
            self.request.sendall(b"-ERR unknown command\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def started(
    repository: str, folder: Path, more: dict[str, str], before: str = ""
) -> subprocess.CompletedProcess[str]:
    """Start the server with what stands for Triton, which says nothing and ends well."""
    (folder / "tritonserver").write_text("#!/bin/sh\n")
    (folder / "tritonserver").chmod(0o755)
    path = f"{folder}:{VENV / 'bin'}:/usr/bin:/bin"
    command = (sys.executable, "-c", before + SERVE, f"--model-repository={repository}")
    environ = variables(PYTHONPATH=str(SOURCES), PATH=path, **more)
    # A file: what hides the admin key has stderr too, until the server's process is gone.
    with (folder / "stderr").open("w") as file:
        done = subprocess.run(command, cwd=folder, env=environ, stderr=file, text=True)
    done.stderr = (folder / "stderr").read_text()
    return done


def client(s3: Store, service: str, key: dict[str, str]) -> Any:
    return boto3.client(service, region_name="us-east-1", endpoint_url=s3.url, aws_access_key_id=key["AWS_ACCESS_KEY_ID"], aws_secret_access_key=key["AWS_SECRET_ACCESS_KEY"])  # fmt: skip


@pytest.fixture(scope="module")
def owner(s3: Store) -> dict[str, str]:
    """Return the environment of a user who may do all."""
    iam = client(s3, "iam", s3.keys)
    iam.create_user(UserName="owner")
    iam.put_user_policy(UserName="owner", PolicyName="all", PolicyDocument=json.dumps(ALL))
    key: dict[str, Any] = iam.create_access_key(UserName="owner")["AccessKey"]
    return s3.keys | {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }


@pytest.fixture
def strict(s3: Store, owner: dict[str, str]) -> Iterator[dict[str, str]]:
    """Let the store compare keys and signatures. Yield the environment of the owner."""
    reset(s3, "0")
    yield owner
    reset(s3, "inf")


def reset(s3: Store, actions: str) -> None:
    """Let the store compare keys after so many requests."""
    s3.needs_keys = actions == "0"
    url, text = f"{s3.url}/moto-api/reset-auth", {"Content-Type": "text/plain"}
    with urlopen(Request(url, actions.encode(), text, method="POST")):
        pass


@pytest.mark.slow
def test_a_wrong_key_is_one_line_and_the_right_one_works(
    project: Project, s3: Store, strict: dict[str, str], tmp_path: Path
) -> None:
    wrong_secret = strict | {"AWS_SECRET_ACCESS_KEY": "wrong"}
    wrong_key = strict | {"AWS_ACCESS_KEY_ID": "AKIAWRONG"}
    assert "the secret is refused" in line(push(project, s3, **wrong_secret))
    assert "the key is refused" in line(push(project, s3, **wrong_key))
    succeed(push(project, s3, **strict))
    address = f"s3://{s3.url}/models/{prefix(project)}/1"
    assert "the secret is refused" in started(address, tmp_path, wrong_secret).stderr
    assert "the key is refused" in started(address, tmp_path, wrong_key).stderr
    assert started(address, tmp_path, strict).returncode == 0


@contextmanager
def metadata(**role: str) -> Iterator[str]:
    """Answer with a role's key: as a machine's metadata, a container's service, or STS. Yield the URL."""
    roles = "/latest/meta-data/iam/security-credentials"
    answers = {roles: b"r\n", f"{roles}/r": json.dumps(role).encode()} if role else {}
    answers[""] = f"<A><B>{''.join(f'<{k}>{v}</{k}>' for k, v in role.items())}</B></A>".encode()

    class Role(Handler):
        def do_PUT(self) -> None:
            self.answer(b"token")

        def do_GET(self) -> None:
            token = self.headers["X-aws-ec2-metadata-token"] or self.headers["Authorization"]
            self.answer(answers.get(self.path.rstrip("/")) if token == "token" else None)

        def do_POST(self) -> None:
            given = parse_qs(self.read_body().decode())
            self.answer(answers[""] if given.get("WebIdentityToken") == ["token"] else None)

        def answer(self, content: bytes | None) -> None:
            self.respond(200 if content else 404, content or b"")

    with serve_http(Role) as place:
        yield f"http://{place}"


@pytest.fixture
def private(s3: Store, strict: dict[str, str]) -> str:
    """Return the address of a repository that is not read without a key."""
    put = client(s3, "s3", strict).put_object
    for name, text in {"config.pbtxt": 'backend: "python"', "1/model.py": MODEL}.items():
        put(Bucket="models", Key=f"private/net/{name}", Body=text.encode())
    return f"s3://{s3.url}/models/private"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("AWS_EC2_METADATA_DISABLED", "true", "AWS_EC2_METADATA_DISABLED is true"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{NOWHERE}", "refused"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "SILENT", "timed out"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "MACHINE", "status 404"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "JUNK", "its answer is not a key"),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "NONE", "/none: status 404: Not Found"),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "EMPTY", "its answer is not a key"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/none/token", "arn:r: [Errno 2] No such file"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/dev/null", "arn:r: status 404: Not Found"),
    ],
)
def test_a_server_without_a_key_and_a_role_says_so_at_once(
    private: str, tmp_path: Path, variable: str, value: str, why: str
) -> None:
    empty = metadata(AccessKeyId="", SecretAccessKey="", Token="")
    silent = socket.create_server(("127.0.0.1", 0))
    with metadata() as machine, empty as keyless, another_protocol() as junk, silent:
        places = {"MACHINE": machine, "NONE": f"{machine}/none", "JUNK": f"http://{junk}"}
        places["EMPTY"] = f"{keyless}/latest/meta-data/iam/security-credentials/r"
        places["SILENT"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        value = places.get(value, value)
        more = {"HOME": str(tmp_path), "AWS_CONTAINER_AUTHORIZATION_TOKEN": "token"}
        sts = {"AWS_ENDPOINT_URL_STS": machine, "AWS_ROLE_ARN": "arn:r"}
        done = started(private, tmp_path, more | sts | {variable: value})
    [said] = done.stderr.splitlines()
    assert said.startswith(f"MODEL_REPOSITORY: {private}: there is no key, and no role (")
    assert why in said
    instead = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the server a role that may read there"
    assert said.endswith(f"); {instead}")
    assert done.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("source", ["machine", "container", "pod identity", "web identity"])
def test_a_role_that_may_not_read_is_one_line_and_one_that_may_starts_triton(
    s3: Store, private: str, strict: dict[str, str], tmp_path: Path, source: str
) -> None:
    iam, name = client(s3, "iam", strict), f"reader-{source.split()[0]}"
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]["Arn"]
    key = client(s3, "sts", strict).assume_role(RoleArn=arn, RoleSessionName="pod")["Credentials"]
    token = tmp_path / "token"
    token.write_text("token\n")
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
    with metadata(Token=key["SessionToken"], **{name: key[name] for name in names}) as url:
        container = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{url}/latest/meta-data/iam/security-credentials/r"
        }
        more = {
            "machine": {"AWS_EC2_METADATA_SERVICE_ENDPOINT": url},
            "container": container | {"AWS_CONTAINER_AUTHORIZATION_TOKEN": "token"},
            "pod identity": container | {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token)},
            "web identity": {
                "AWS_ENDPOINT_URL_STS": url,
                "AWS_ROLE_ARN": arn,
                "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
            },
        }[source] | {"HOME": str(tmp_path)}
        [said] = started(private, tmp_path, more).stderr.splitlines()
        assert said.startswith(f"MODEL_REPOSITORY: {private}: access is denied; let the role")
        iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=json.dumps(ALL))
        assert started(private, tmp_path, more).returncode == 0
        if source in ("machine", "container"):  # the local Triton's SDK knows no other here
            with triton(private, tmp_path, **more) as server:
                wait_until_ready(*server)


def test_without_boto3_the_command_says_what_to_run(
    built: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    said = call(built, "push", "s3://models/p")
    assert said.err.startswith("push: boto3 is not installed; in a project run: make push")
