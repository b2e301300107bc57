"""The meaning of S3's error codes and failed connections, in one line: what, and what to do."""

from __future__ import annotations

from urllib.error import HTTPError
from xml.etree import ElementTree

KEY = "AWS_ACCESS_KEY_ID"
SECRET = "AWS_SECRET_ACCESS_KEY"
TOKEN = "AWS_SESSION_TOKEN"
REGION = "AWS_DEFAULT_REGION"
OTHER_REGION = f"it is in another region; set {REGION} to it"
OTHER_KEY = f"is refused; compare {KEY} and {SECRET} with the store's"
CODES = {
    "NoSuchBucket": "there is no such bucket; create it, or compare its name",
    "InvalidAccessKeyId": f"the key {OTHER_KEY}",
    "SignatureDoesNotMatch": f"the secret {OTHER_KEY}",
    "InvalidToken": f"the session's token {OTHER_KEY}",
    "ExpiredToken": "the session has expired; log in again",
    "AccessDenied": f"access is denied; let the role, or the key of {KEY}, list and read there, and write to push",
    "RequestTimeTooSkewed": "this machine's clock is wrong; set it",
    "PermanentRedirect": OTHER_REGION,
    "AuthorizationHeaderMalformed": OTHER_REGION,
    "IllegalLocationConstraintException": OTHER_REGION,
}
GIVE_KEY = f"set {KEY} and {SECRET}"
NO_KEY = f"there is no key; {GIVE_KEY}, or AWS_PROFILE"


def explain_code(code: str, message: str) -> str:
    """Return what an error's code means, or its own message if the code is not known."""
    return CODES.get(code) or " ".join(f"{code}: {message}".split())


def error_of(answer: HTTPError) -> tuple[str, str]:
    """Return the code and the message of an answer that is an error."""
    try:
        said = fields(answer.read())
    except ElementTree.ParseError:
        said = {}
    return said.get("Code") or f"status {answer.code}", said.get("Message", answer.reason)


def fields(body: bytes) -> dict[str, str]:
    """Return the texts of an answer in XML, by the names of their elements."""
    elements = ElementTree.fromstring(body).iter()
    return {element.tag.rpartition("}")[2]: element.text or "" for element in elements}


def unreachable(host: str, reason: object) -> str:
    """Return what the failure of a connection means."""
    text = " ".join(str(reason).split())
    return f"{host} can't be reached: {text}; compare host, port and http or https"
