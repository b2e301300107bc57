"""`STORE=s3://bucket/prefix`: files of published versions in a bucket, for who has the project and not its versions/."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bucket import Store, store
from support import Project, succeed
from versions_of_a_step import STEP, command, copied, published


@pytest.fixture(scope="module")
def s3() -> Iterator[Store]:
    with store() as running:
        yield running


@pytest.fixture(scope="module")
def sent(git_template: Path, s3: Store, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project whose step has version 1 in versions/, and 2 in the bucket too."""
    project = published(git_template, tmp_path_factory.mktemp("sent"))
    succeed(stored(project, s3, "publish", "NAME=one", "VERSION=2"))
    return project


@pytest.fixture
def elsewhere(sent: Project, tmp_path: Path) -> Project:
    """Return the project as another machine has it, without any of the files."""
    project = copied(sent, tmp_path)
    shutil.rmtree(project / "versions")
    shutil.rmtree(project / "model_repository/one/2/steps")
    return project


def stored(
    project: Project, s3: Store, *words: str, prefix: str = "blobs"
) -> subprocess.CompletedProcess[str]:
    return command(project, *words, f"STORE=s3://{s3.url}/models/{prefix}", **s3.keys)


def line(process: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a command says that fails."""
    assert process.returncode
    [said] = [text for text in process.stderr.splitlines() if not text.startswith("make")]
    return said


@pytest.mark.slow
def test_what_is_published_is_in_the_bucket_by_its_digest(sent: Project, s3: Store) -> None:
    local = {path.name: path.stat().st_size for path in (sent / "versions/code").iterdir()}
    there = s3.keys_in("models", "blobs/")
    assert there == {f"blobs/{digest}": size for digest, size in local.items()}


@pytest.mark.slow
def test_it_comes_from_there_where_it_is_missing_and_once(elsewhere: Project, s3: Store) -> None:
    succeed(stored(elsewhere, s3, "repository"))
    frozen = elsewhere / "model_repository/one/2/steps/one.py"
    assert frozen.read_text() == STEP.format(version=2)
    s3.requests.clear()
    succeed(stored(elsewhere, s3, "repository"))
    assert s3.requests == []


@pytest.mark.slow
def test_what_was_published_without_the_bucket_is_sent_later(sent: Project, s3: Store) -> None:
    again = stored(sent, s3, "publish", "NAME=one", "VERSION=2", prefix="later")
    assert "is already published, with the same files" in succeed(again)
    assert len(s3.keys_in("models", "later/")) == 2


@pytest.mark.slow
def test_without_it_the_line_says_who_could_have_the_files(elsewhere: Project) -> None:
    said = command(elsewhere, "repository").stderr.splitlines()[0]
    assert "is missing, which is steps/one.py of one's version 1" in said
    assert said.endswith("STORE=s3://bucket/prefix")


@pytest.mark.slow
def test_what_is_damaged_in_the_bucket_is_not_taken(elsewhere: Project, s3: Store) -> None:
    client = s3.client()
    for key in s3.keys_in("models", "blobs/"):
        damaged = key.replace("blobs", "damaged")
        client.put_object(Bucket="models", Key=damaged, Body=b"x")
    said = line(stored(elsewhere, s3, "repository", prefix="damaged"))
    assert "is damaged, which is steps/one.py of one's version 1" in said
    assert not [*(elsewhere / "versions").rglob("*.new")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bucket", "said"),
    [("s3://models", "a prefix is missing"), ("nowhere", "is not an address in S3")],
)
def test_an_address_that_is_none_is_a_line(elsewhere: Project, bucket: str, said: str) -> None:
    assert said in line(command(elsewhere, "repository", f"STORE={bucket}"))
