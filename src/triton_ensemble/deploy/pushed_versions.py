"""Versions of a model repository in a bucket: `PREFIX/VERSION/` has the files, `PREFIX/VERSION.json` names them.

The list is written last, so a version without one is a push that was interrupted. The next push of the same files goes
on with it. `PREFIX/VERSION.claim` is written first and has the digest of that list, so that two pushes at once have two
versions. A version that has a list never changes. Both lie beside the version's folder, because Triton and KServe load
all that is inside.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from triton_ensemble.deploy import PushError
from triton_ensemble.deploy.bucket import Bucket
from triton_ensemble.deploy.pushed_files import Content

LIST = re.compile(r"([1-9]\d*)\.json")
FORM = 1


class Plan(NamedTuple):
    """The plan of a push: the version, and its files that exist, are copied inside the store, or are uploaded."""

    version: int
    complete: bool  # all is there already, under this version
    kept: list[str]
    copied: dict[str, str]  # the source, `VERSION/PATH`, by the path
    uploaded: list[str]
    stale: list[str]  # of an interrupted push, and in the repository no more


def plan(bucket: Bucket, files: dict[str, Content], wanted: int | None) -> Plan:
    """Return what is to be done for these files, or raise PushError if the wanted version can't have them."""
    names, folders = bucket.names()
    complete = sorted(int(match[1]) for name in names if (match := LIST.fullmatch(name)))
    newest = complete[-1] if complete else 0
    before = _read_listing(bucket, newest) if newest else {}
    if wanted in complete or (wanted is None and before == files):
        return _same(bucket, files, wanted or newest)
    for version in [wanted] if wanted else itertools.count(newest + 1):
        there = _find_interrupted(bucket, version) if str(version) in folders else {}
        if _claim(bucket, version, files):
            break
    else:
        what = "another push has started this version with other files"
        raise PushError(f"{bucket.address / str(wanted)}: {what}; name another VERSION, or none")
    kept = [path for path, content in files.items() if there.get(path) == content]
    sources = {content: path for path, content in before.items()}
    rest = [path for path in files if path not in kept]
    copied = {path: f"{newest}/{sources[files[path]]}" for path in rest if files[path] in sources}
    uploaded = [path for path in rest if path not in copied]
    return Plan(version, False, kept, copied, uploaded, sorted(there.keys() - files.keys()))


def run_push(
    bucket: Bucket,
    plan: Plan,
    files: dict[str, Content],
    repository: Path,
    progress: Callable[[int], None],
) -> None:
    """Copy and upload, then write the list. `progress` gets the number of bytes as they are done."""
    at, left = f"{plan.version}/", bucket.find_left_uploads(str(plan.version))
    bucket.delete(f"{at}{path}" for path in plan.stale)
    bucket.copy({f"{at}{path}": (s, files[path]) for path, s in plan.copied.items()}, progress)
    given = {f"{at}{path}": (repository / path, files[path]) for path in plan.uploaded}
    bucket.upload(given, progress)
    bucket.write(f"{plan.version}.json", _list_of(files))
    # Of a push that was killed. Last, because another push of the same files may still send them.
    bucket.abort(left)


def _list_of(files: dict[str, Content]) -> str:
    listed = {path: content._asdict() for path, content in sorted(files.items())}
    return json.dumps({"form": FORM, "files": listed}, indent=1) + "\n"


def _claim(bucket: Bucket, version: int, files: dict[str, Content]) -> bool:
    """Take a version's number for these files. Return False if another push has it for others."""
    name, own = f"{version}.claim", hashlib.sha256(_list_of(files).encode()).hexdigest()
    bucket.create(name, own)
    return bucket.read(name).decode(errors="replace") == own


def _read_listing(bucket: Bucket, version: int) -> dict[str, Content]:
    """Return the files of a complete version."""
    try:
        read = json.loads(bucket.read(f"{version}.json"))
        return {path: Content(each["sha256"], each["size"]) for path, each in read["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        where = f"{bucket.address / str(version)}.json"
        raise PushError(
            f"{where}: lists no version's files; move it away, or push to another prefix"
        ) from None


def _same(bucket: Bucket, files: dict[str, Content], version: int) -> Plan:
    if _read_listing(bucket, version) != files:
        where = bucket.address / str(version)
        what = "is complete, with other files, and a version never changes"
        raise PushError(f"{where}: {what}; name another VERSION, or leave it out for the next one")
    return Plan(version, True, [*files], {}, [], [])


def _find_interrupted(bucket: Bucket, version: int) -> dict[str, Content]:
    """Return the files of a push that was interrupted, or raise PushError if others have put files there."""
    found = bucket.contents(str(version))
    foreign = sorted(path for path, content in found.items() if content is None)
    if foreign:
        where = bucket.address / str(version)
        what = f"has files that no push wrote, such as {foreign[0]}"
        raise PushError(f"{where}: {what}; name another: VERSION={version + 1}")
    return {path: content for path, content in found.items() if content}
