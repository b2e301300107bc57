"""The key of a role, for a server without a key in its environment, with Python only.

As in Triton's SDK, the sources are, in this order: the token of a web identity (EKS), the address that a container has
for its role (ECS), the metadata of the machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener
from xml.etree import ElementTree

from triton_ensemble.serve import s3_problems as problems

STS_TIMEOUT_S = 5
LOCAL_TIMEOUT_S = 2  # of a source on the machine; where there is none, no answer may come
CONTAINERS = "http://169.254.170.2"
MACHINE = "http://169.254.169.254"
DISABLED = "AWS_EC2_METADATA_DISABLED"
FIELDS = {
    problems.KEY: "AccessKeyId",
    problems.SECRET: "SecretAccessKey",
    problems.TOKEN: "Token",
}
FILES = {
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}
Source = Callable[[], Mapping[str, str]]


class RoleError(Exception):
    """Raised if no source has a key, with the reason and what to do."""


def is_in_files(environment: Mapping[str, str]) -> bool:
    """Return whether files of the SDK, which only Triton reads, may have a key."""
    files = (environment.get(name) or default for name, default in FILES.items())
    return any(os.path.exists(os.path.expanduser(file)) for file in files)


def find_key(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a role's key, or raise RoleError if there is none."""
    failures = []
    for name, source in _sources(environment):
        try:
            found = source()
            key = {variable: found[field] for variable, field in FIELDS.items()}
            if all(key.values()):
                return key
            raise ValueError
        except HTTPError as error:
            with error:
                failures.append(": ".join((name, *problems.error_of(error))))
        except OSError as error:
            failures.append(f"{name}: {getattr(error, 'reason', error)}")
        except (HTTPException, ValueError, KeyError, TypeError, ElementTree.ParseError):
            failures.append(f"{name}: its answer is not a key")
    why = " ".join((failures or [f"{DISABLED} is true"])[0].split())
    what = f"there is no key, and no role ({why})"
    raise RoleError(f"{what}; {problems.GIVE_KEY}, or give the server a role that may read there")


def _sources(environment: Mapping[str, str]) -> Iterator[tuple[str, Source]]:
    """Yield the name of each source that the environment names, and the call that asks it."""
    if token := environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        name = environment.get("AWS_ROLE_ARN", token)
        yield name, lambda: _fetch_web_identity(Path(token), environment)
    path = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    full = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if url := CONTAINERS + path if path else full:
        yield url, lambda: json.loads(_ask(url, _authorization(environment)))
    elif environment.get(DISABLED, "").lower() != "true":
        machine = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or MACHINE
        yield machine, lambda: _fetch_machine_key(f"{machine.rstrip('/')}/latest")


def _fetch_web_identity(token: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of the key that AWS gives for a token."""
    region = environment.get(problems.REGION) or "us-east-1"
    given = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": environment.get("AWS_ROLE_ARN", ""),
        "RoleSessionName": environment.get("AWS_ROLE_SESSION_NAME") or "triton-ensemble",
        "WebIdentityToken": token.read_text().strip(),
    }
    url = environment.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.amazonaws.com"
    answer = _ask(url, method="POST", body=urlencode(given).encode(), timeout_s=STS_TIMEOUT_S)
    fields = problems.fields(answer)
    return fields | {"Token": fields["SessionToken"]}


def _fetch_machine_key(url: str) -> dict[str, str]:
    """Return the fields of the key that the machine has.

    Its metadata may be of version 1, which needs no token.
    """
    headers = {}
    try:
        ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        headers["X-aws-ec2-metadata-token"] = _ask(f"{url}/api/token", ttl, "PUT").decode()
    except OSError:
        pass
    roles = f"{url}/meta-data/iam/security-credentials/"
    name = _ask(roles, headers).decode().split()[:1]
    found: dict[str, str] = json.loads(_ask(roles + "".join(name), headers))
    return found


def _authorization(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the header with the token of a container, which may be in a file."""
    if file := environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        return {"Authorization": Path(file).read_text().strip()}
    token = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
    return {"Authorization": token} if token else {}


def _ask(
    url: str,
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
    body: bytes | None = None,
    timeout_s: float = LOCAL_TIMEOUT_S,
) -> bytes:
    """Return an answer, without a proxy, or raise OSError if there is none."""
    request = Request(url, body, dict(headers or {}), method=method)
    with build_opener(ProxyHandler({})).open(request, timeout=timeout_s) as response:
        answer: bytes = response.read()
        return answer
