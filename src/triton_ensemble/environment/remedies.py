"""Remedies for what a program that sets up says. Python 3.9 reads this too, before there is an environment."""

from __future__ import annotations

import re

NETWORK = (
    "name resolution|dns error|lookup address|Name or service not known|[Cc]onnection (refused|reset)|getaddrinfo|"
    "NewConnectionError|No route to host|[Nn]etwork is unreachable|[Tt]imed out|error sending request"
)
REMEDIES = {
    "No space left|os error 28|[Dd]isk quota": "make room there, and run it again",
    "[Pp]roxy ?(Error|auth|connect|error|tunnel)|tunnel|407 ": "correct HTTPS_PROXY or NO_PROXY",
    "[Cc]ertificate|CERTIFICATE": "name your certificates as SSL_CERT_FILE, for pip as PIP_CERT",
    NETWORK: "check the network, and HTTPS_PROXY if you have a proxy; PIP_INDEX_URL names another package index",
    r"\btorch\b.*==\S*\+": "name the index that has it as `torch_index` in pipeline.yml; docs/environment.md, Packages, says how",
    "[Pp]ermission denied|[Rr]ead-only": "make it writable, or name another folder as VENV",
}


def explain(what: str, said: str, program: str = "the system") -> str:
    """Return a line on what a program said, with a remedy, or all that it said if no remedy is known."""
    for pattern, remedy in REMEDIES.items():
        if lines := [line.strip() for line in said.splitlines() if re.search(pattern, line)]:
            return f"{what}: {lines[-1][:300]}; {remedy}"
    return f"{said}\n{what}: can't be installed, as {program} says above; then run: make setup"
