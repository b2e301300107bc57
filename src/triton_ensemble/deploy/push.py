"""Upload the project's model repository to a bucket, as a new version: TO/1/, TO/2/, ...

The command sends only files that changed since the version before. A complete version never changes. Then it
writes the new version into your files in deploy/ that name one. boto3 finds the bucket's keys: in the
environment, in ~/.aws, or from the machine's role.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from triton_ensemble.deploy import NO_BOTO3, PushError
from triton_ensemble.facts.progress import Progress
from triton_ensemble.facts.project import Project, ProjectError
from triton_ensemble.serve.container import sizes
from triton_ensemble.serve.s3_address import Address, AddressError

if TYPE_CHECKING:
    from triton_ensemble.deploy.pushed_versions import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the bucket and the version."""
    where = "s3://BUCKET/PREFIX, or s3://https://HOST:PORT/BUCKET/PREFIX; AWS_ENDPOINT_URL can also name the host"
    parser.add_argument("to", nargs="?", metavar="TO", help=where)
    number = "the number of a new version; default: the next one"
    parser.add_argument("--version", metavar="NUMBER", help=number)


def run(arguments: argparse.Namespace) -> int:
    """Push. Print a line for each reason and return 1 if that fails."""
    try:
        project, to = Project.load(Path.cwd()), _address(arguments.to)
        _push(project, to, _version(arguments.version))
    except (PushError, AddressError) as error:
        print(error, file=sys.stderr)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("boto3", "botocore", "s3transfer"):
            raise
        print(f"push: {NO_BOTO3}", file=sys.stderr)
    except OSError as error:
        print(f"push: {error}", file=sys.stderr)
    else:
        return 0
    return 1


def _address(text: str | None) -> Address:
    if not text:
        raise ProjectError("push: say where to: make push TO=s3://bucket/prefix")
    return Address.parse_target(text)


def _version(text: str | None) -> int | None:
    if text and not (text.isascii() and text.isdecimal() and text[0] != "0"):
        raise ProjectError(
            f"VERSION={text}: is not a version; write a number from 1 on, or leave VERSION out"
        )
    return int(text) if text else None


def _push(project: Project, to: Address, wanted: int | None) -> None:
    from triton_ensemble.deploy import pushed_versions as versions
    from triton_ensemble.deploy import references
    from triton_ensemble.deploy.bucket import Bucket
    from triton_ensemble.deploy.pushed_files import files

    _refuse_errors(project)
    with Progress("Reading the model repository"):
        content = files(project)
    bucket = Bucket(to)
    with Progress(f"Asking {to}"):
        plan = versions.plan(bucket, content, wanted)
    there = to / str(plan.version)
    if plan.complete:
        print(f"{there}: already has this repository; nothing was uploaded", flush=True)
    else:
        for path in plan.uploaded:
            print(f"{path}: {content[path].size} bytes")
        total, done = sum(content[path].size for path in (*plan.copied, *plan.uploaded)), [0]
        with Progress(f"Pushing {there}") as progress:

            def show(count: int) -> None:
                done[0] += count
                progress.show(f"Pushing {there}: {done[0] / 1e6:.0f} of {total / 1e6:.0f} MB")

            versions.run_push(bucket, plan, content, project.repository, show)
        print(f"{there}: {_format_summary(plan)}", flush=True)
    named = [*references.rewrite(project.root, to, plan.version)]
    print(*(named or _suggest_servers(project.root, there)), *sizes.lines(project), sep="\n")


def _refuse_errors(project: Project) -> None:
    """Raise PushError with what `make check` finds that Triton would refuse."""
    from triton_ensemble.check.formats import FORMATS
    from triton_ensemble.check.rules.engine import check

    found = check(project.repository, is_own=True)
    errors = [each for each in found if each.severity == "error"]
    if errors:
        raise PushError(FORMATS["text"](errors))


def _format_summary(plan: Plan) -> str:
    counts = {
        "uploaded": len(plan.uploaded),
        "copied from the version before": len(plan.copied),
        "there from a push that was interrupted": len(plan.kept),
    }
    return "complete; " + ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _suggest_servers(root: Path, there: Address) -> Iterator[str]:
    """Yield what to write so that the version is served, for a project whose files in deploy/ name none."""
    yield "None of your files in deploy/ names a version of it. To serve it, write"
    yield f"  MODEL_REPOSITORY={there} for the container of `make image MODELS=mounted`"
    if (root / "deploy/kubernetes").is_dir():
        yield "    in the configMapGenerator of deploy/kubernetes/kustomization.yaml"
    yield f"  storageUri: s3://{there.bucket}/{there.prefix}/ for KServe"
