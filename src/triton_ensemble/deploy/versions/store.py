"""Copy the files of published versions between versions/ and a bucket, by their digests.

The command downloads files that versions/ lacks. With --send it also uploads files that the bucket lacks. It
finds the bucket's keys as `make push` does.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path

from triton_ensemble.deploy import NO_BOTO3, PushError
from triton_ensemble.deploy.bucket import Bucket
from triton_ensemble.deploy.pushed_files import content
from triton_ensemble.facts.progress import Progress
from triton_ensemble.serve import RepositoryError, published
from triton_ensemble.serve.published import Frozen
from triton_ensemble.serve.s3_address import Address, AddressError


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the bucket, and whether to write into it."""
    parser.add_argument("store", metavar="STORE", help="s3://BUCKET/PREFIX, as for `push`")
    parser.add_argument(
        "--send", action="store_true", help="also upload files that the bucket lacks"
    )


def run(arguments: Namespace) -> int:
    """Copy what is missing. Print a line and return 1 if that is impossible."""
    try:
        _copy(Path.cwd(), Address.parse_target(arguments.store), send=arguments.send)
    except (PushError, AddressError, RepositoryError, OSError) as error:
        print(error, file=sys.stderr)
    except ModuleNotFoundError:
        print(f"store: {NO_BOTO3}", file=sys.stderr)
    else:
        return 0
    return 1


def _copy(root: Path, store: Address, *, send: bool) -> None:
    files = {each.digest: each for each in published.iter_kept_files(root)}
    missing = [each for each in files.values() if not each.blob.is_file()]
    if not missing and not send:
        return
    bucket = Bucket(store)
    there, _ = bucket.names()
    _fetch(bucket, [each for each in missing if each.digest in there])
    if send:
        _send(bucket, [e for e in files.values() if e.blob.is_file() and e.digest not in there])


def _fetch(bucket: Bucket, files: Iterable[Frozen]) -> None:
    """Download files, or raise PushError for a file whose content does not match its digest."""
    for file in files:
        file.blob.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.blob.with_suffix(".new")
        with Progress(f"Bringing {file.said}"):
            bucket.download(file.digest, unfinished)
        if published.digest(unfinished) != file.digest:
            unfinished.unlink()
            where = bucket.address / file.digest
            raise PushError(f"{where}: is damaged, which is {file.said}; send it again")
        published.take(unfinished, file.blob)
        print(f"{file.said}: downloaded from {bucket.address}", flush=True)


def _send(bucket: Bucket, files: Iterable[Frozen]) -> None:
    """Upload files, or raise RepositoryError for a file whose content does not match its digest."""
    for file in files:
        known = content(file.blob)
        if known.sha256 != file.digest:
            raise RepositoryError(f"{file.blob}: is damaged, which is {file.said}")
        with Progress(f"Sending {file.said}"):
            bucket.upload({file.digest: (file.blob, known)}, lambda _: None)
        print(f"{file.said}: uploaded to {bucket.address}", flush=True)
