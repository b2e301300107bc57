"""A folder in a bucket, by boto3: its files, and transfers. Each error is one line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from triton_ensemble.deploy import PushError
from triton_ensemble.deploy.pushed_files import Content
from triton_ensemble.serve import s3_problems as problems
from triton_ensemble.serve.s3_address import Address

CONNECT_S, READ_S, ATTEMPTS = 5, 60, 2
# S3 copies up to 5 GB at once.
COPY_AT_ONCE_BYTES = 1 << 30
TAKEN = ("PreconditionFailed", "ConditionalRequestConflict")  # another writer was first
DIGEST = "sha256"  # metadata of each object that is pushed


class Bucket:
    """The folder at an address. Each method raises PushError if the store refuses or can't be reached."""

    def __init__(self, address: Address) -> None:
        self.address = address
        with _one_line(address):
            self._client = _client(address)

    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of the folder's files and subfolders."""
        found: tuple[list[str], list[str]] = [], []
        for page in self._pages(Prefix=self._key(""), Delimiter="/"):
            found[0].extend(each["Key"] for each in page.get("Contents", ()))
            found[1].extend(each["Prefix"] for each in page.get("CommonPrefixes", ()))
        start = len(self._key(""))
        return [key[start:] for key in found[0]], [key[start:-1] for key in found[1]]

    def contents(self, folder: str) -> dict[str, Content | None]:
        """Return the content of each file in a subfolder, by its path there.

        The content is None for a file that a push did not write.
        """
        start, found = self._key(f"{folder}/"), {}
        for page in self._pages(Prefix=start):
            for each in page.get("Contents", ()):
                with _one_line(self.address):
                    head = self._client.head_object(Bucket=self.address.bucket, Key=each["Key"])
                digest = head["Metadata"].get(DIGEST)
                found[each["Key"][len(start) :]] = digest and Content(digest, each["Size"])
        return found

    def read(self, name: str) -> bytes:
        """Return what a file holds."""
        with _one_line(self.address):
            answer = self._client.get_object(Bucket=self.address.bucket, Key=self._key(name))
            return bytes(answer["Body"].read())

    def write(self, name: str, text: str) -> None:
        """Write a small file at once."""
        with _one_line(self.address):
            self._put(name, text)

    def create(self, name: str, text: str) -> None:
        """Write a small file unless it is there already.

        A store without conditional writes is asked for the file first, so two writers at the same moment both write.
        """
        from botocore.exceptions import ClientError

        with _one_line(self.address):
            asked = {"Bucket": self.address.bucket, "Prefix": self._key(name), "MaxKeys": 1}
            if self._client.list_objects_v2(**asked).get("KeyCount"):
                return
            try:
                self._put(name, text, IfNoneMatch="*")
            except ClientError as error:
                code = error.response["Error"].get("Code")
                if code == "NotImplemented":
                    self._put(name, text)
                elif code not in TAKEN:
                    raise

    def _put(self, name: str, text: str, **more: str) -> None:
        self._client.put_object(
            Bucket=self.address.bucket,
            Key=self._key(name),
            Body=text.encode(),
            ChecksumAlgorithm="SHA256",
            ContentType="application/json",
            **more,
        )

    def delete(self, names: Iterable[str]) -> None:
        """Delete files."""
        for name in names:
            with _one_line(self.address):
                self._client.delete_object(Bucket=self.address.bucket, Key=self._key(name))

    def upload(
        self, files: dict[str, tuple[Path, Content]], progress: Callable[[int], None]
    ) -> None:
        """Upload files, several at a time, with checksums that the store compares.

        `progress` gets the number of bytes.
        """
        from boto3.s3.transfer import TransferConfig

        def start(manager: Any, key: str, given: tuple[Path, Content], watch: list[Any]) -> Any:
            path, content = given
            more = {"ChecksumAlgorithm": "SHA256", "Metadata": {DIGEST: content.sha256}}
            return manager.upload(str(path), self.address.bucket, key, more, watch)

        self._transfer(TransferConfig(), start, files, progress)

    def find_left_uploads(self, folder: str) -> list[dict[str, str]]:
        """Return the key and id of each multipart upload in a subfolder that has begun and not ended."""
        pages = self._client.get_paginator("list_multipart_uploads")
        at = {"Bucket": self.address.bucket, "Prefix": self._key(f"{folder}/")}
        with suppress(PushError), _one_line(self.address):  # a key may push and not list them
            found = [each for page in pages.paginate(**at) for each in page.get("Uploads", ())]
            return [{name: each[name] for name in ("Key", "UploadId")} for each in found]
        return []

    def abort(self, uploads: Iterable[dict[str, str]]) -> None:
        """Remove the parts of uploads, which the store keeps otherwise."""
        for upload in uploads:
            with suppress(PushError), _one_line(self.address):
                self._client.abort_multipart_upload(Bucket=self.address.bucket, **upload)

    def download(self, name: str, path: Path) -> None:
        """Download a file."""
        with _one_line(self.address):
            self._client.download_file(self.address.bucket, self._key(name), str(path))

    def copy(self, files: dict[str, tuple[str, Content]], progress: Callable[[int], None]) -> None:
        """Copy files inside the store. `files` has the present name in the folder by the new one."""
        from boto3.s3.transfer import TransferConfig

        def start(manager: Any, key: str, given: tuple[str, Content], watch: list[Any]) -> Any:
            source, content = given
            bucket = self.address.bucket
            more = {"MetadataDirective": "REPLACE", "Metadata": {DIGEST: content.sha256}}
            return manager.copy(
                {"Bucket": bucket, "Key": self._key(source)}, bucket, key, more, watch
            )

        self._transfer(
            TransferConfig(
                multipart_threshold=COPY_AT_ONCE_BYTES, multipart_chunksize=COPY_AT_ONCE_BYTES
            ),
            start,
            files,
            progress,
        )

    def _transfer(
        self, config: Any, start: Callable[..., Any], files: dict[str, Any], progress: Any
    ) -> None:
        """Start a transfer for each file, and wait.

        If one fails, the transfers that have not begun are given up.
        """
        from boto3.s3.transfer import ProgressCallbackInvoker, create_transfer_manager

        watch = [ProgressCallbackInvoker(progress)]
        with _one_line(self.address), create_transfer_manager(self._client, config) as manager:
            begun = [start(manager, self._key(name), given, watch) for name, given in files.items()]
            for transfer in begun:
                transfer.result()

    def _pages(self, **asked: str) -> Iterator[Any]:
        pages = self._client.get_paginator("list_objects_v2")
        with _one_line(self.address):
            yield from pages.paginate(Bucket=self.address.bucket, **asked)

    def _key(self, name: str) -> str:
        return f"{self.address.prefix}/{name}"


def _client(address: Address) -> Any:
    import boto3
    from botocore.config import Config

    style = {"addressing_style": "path"} if address.endpoint else {}
    session = boto3.Session()
    return session.client(
        "s3",
        endpoint_url=address.endpoint or None,
        region_name=session.region_name or os.environ.get("AWS_REGION") or "us-east-1",
        config=Config(
            connect_timeout=CONNECT_S,
            read_timeout=READ_S,
            retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
            s3=style,
        ),
    )


@contextmanager
def _one_line(address: Address) -> Iterator[None]:
    """Raise PushError, with what to do, for an error of boto3's."""
    from boto3.exceptions import Boto3Error
    from botocore import exceptions

    try:
        yield
    except exceptions.ClientError as error:
        given = error.response["Error"]
        what = problems.explain_code(given.get("Code", ""), given.get("Message", ""))
        raise PushError(f"{address}: {what}") from error
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
        raise PushError(f"{address}: {problems.NO_KEY}") from error
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:
        host = urlsplit(address.endpoint).netloc or "AWS"
        raise PushError(f"{address}: {problems.unreachable(host, _reason(error))}") from error
    except (exceptions.BotoCoreError, Boto3Error, OSError) as error:
        raise PushError(f"{address}: {' '.join(str(error).split())}") from error


def _reason(error: Any) -> str:
    """Return why a connection failed, as the system says it, without the names of Python's objects around it."""
    text = str(error.kwargs.get("error", error))
    return text[max(text.find("["), 0) :].rstrip(")") if "[Errno" in text else text
