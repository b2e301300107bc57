"""Check that a server can read its model repository in a bucket, before Triton starts, with Python only.

Triton tries for a minute, and then names neither the address nor the reason. This check asks for two lists of names,
signed with the key in the environment, as Triton does. Without such a key the requests are unsigned, and if they are
refused, signed with the key of a role. Keys in files are known only to Triton: then a refusal does not count.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import shutil
from collections.abc import Mapping
from datetime import datetime, timezone
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen
from xml.etree import ElementTree

from triton_ensemble.serve import s3_problems as problems
from triton_ensemble.serve import s3_role as role
from triton_ensemble.serve.s3_address import Address, AddressError

TIMEOUT_S = 10
COPIES = "/tmp"  # where Triton puts what it loads from a bucket
SHA_OF_NOTHING = hashlib.sha256().hexdigest()
CREDENTIAL_FILE = "TRITON_CLOUD_CREDENTIAL_PATH"  # Triton reads no key of the environment then
TRANSIENT = range(500, 600)
KEYS = ("Key", "Prefix")  # of files, and of folders


def problem(text: str, environment: Mapping[str, str]) -> str | None:
    """Return in one line why Triton can't load the repository at an address, or None if nothing prevents it."""
    try:
        address = Address.parse(text)
    except AddressError as error:
        return str(error)
    what = _refusal(address, environment)
    return f"{address}: {what}" if what else None


def _refusal(address: Address, environment: Mapping[str, str]) -> str | None:
    """Return the reason why Triton can't load what is at an address, or None if another try may succeed."""
    request = _request(address, environment, delimiter="/")
    try:
        with urlopen(request, timeout=TIMEOUT_S) as response:
            what = _explain_list(address, response.read())
        if not what:
            with urlopen(_request(address, environment), timeout=TIMEOUT_S) as response:
                what = _too_large(response.read())
        return what
    except HTTPError as error:
        with error:
            said = problems.explain_code(*problems.error_of(error))
        if error.code in TRANSIENT:
            return None
        if request.has_header("Authorization") or error.code not in (401, 403):
            return said
    except (URLError, OSError) as error:
        return problems.unreachable(request.host, getattr(error, "reason", error))
    except (HTTPException, ElementTree.ParseError):
        return f"{request.host} is not S3; compare host and port"
    if environment.get(CREDENTIAL_FILE) or role.is_in_files(environment):
        return None
    try:
        return _refusal(address, {**environment, **role.find_key(environment)})
    except role.RoleError as error:
        return str(error)


def _request(address: Address, environment: Mapping[str, str], **more: str) -> Request:
    """Return the request for a list of what is at an address, signed if the environment has a key."""
    region = environment.get(problems.REGION) or "us-east-1"
    endpoint = address.endpoint or f"https://s3.{region}.amazonaws.com"
    asked = {**more, "list-type": "2", "max-keys": "1000", "prefix": _folder(address)}
    path, query = f"/{address.bucket}", urlencode(asked, quote_via=quote, safe="")
    key, secret = (environment.get(name, "") for name in (problems.KEY, problems.SECRET))
    headers: dict[str, str] = {}
    if key and secret and not environment.get(CREDENTIAL_FILE):
        headers = _sign(urlsplit(endpoint).netloc, path, query, region, key, secret, environment)
    return Request(f"{endpoint}{path}?{query}", headers=headers)


def _sign(
    host: str,
    path: str,
    query: str,
    region: str,
    key: str,
    secret: str,
    environment: Mapping[str, str],
) -> dict[str, str]:
    """Return the headers that sign a GET: AWS Signature Version 4."""
    time = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": host, "x-amz-content-sha256": SHA_OF_NOTHING, "x-amz-date": time}
    if token := environment.get(problems.TOKEN):
        headers["x-amz-security-token"] = token
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    names = ";".join(headers)
    canonical = f"GET\n{path}\n{query}\n{lines}\n{names}\n{SHA_OF_NOTHING}"
    scope = f"{time[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    signature = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}"):
        signature = hmac.digest(signature, part.encode(), "sha256")
    given = f"Credential={key}/{scope}, SignedHeaders={names}, Signature={signature.hex()}"
    return headers | {"Authorization": f"AWS4-HMAC-SHA256 {given}"}


def _explain_list(address: Address, body: bytes) -> str | None:
    """Return what is wrong with what lies at an address: nothing there, or versions of a repository."""
    start = _folder(address)
    keys = (e.text or "" for e in ElementTree.fromstring(body).iter() if _name(e) in KEYS)
    names = [key.removeprefix(start) for key in keys if key != start]
    manifests = [match[1] for name in names if (match := re.fullmatch(r"(\d+)\.json", name))]
    if manifests:
        newest = max(map(int, manifests))
        return f"has versions of a model repository; name one: {address / str(newest)}"
    return None if names else "there is no file; compare the prefix, or run: make push"


def _too_large(body: bytes) -> str | None:
    """Return what is wrong if the files of a list, of which Triton makes a copy, do not fit on the disk."""
    elements = ElementTree.fromstring(body).iter()
    size = sum(int(element.text or 0) for element in elements if _name(element) == "Size")
    free = shutil.disk_usage(COPIES).free
    if size <= free:
        return None
    return f"has {size / 1e9:.1f} GB, and Triton copies it to {COPIES}, which has {free / 1e9:.1f} GB free; make room there"


def _folder(address: Address) -> str:
    """Return the beginning of the keys in a folder."""
    return f"{address.prefix}/" if address.prefix else ""


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
