"""Takes what looks like a secret out of a text that is to be kept. A net, not a wall: it knows only usual shapes."""

import re
from collections.abc import Iterable, Mapping

HIDDEN = "[secret]"
_SHORTEST = 8  # characters: shorter values stand in ordinary words too
_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH(?!OR(_|$))", re.IGNORECASE)
_SHAPES = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:sk|pk|rk)-[\w-]{16,}"
    r"|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bxox[abeprs]-[\w-]{10,}"
    r"|\bA(?:KIA|SIA)[0-9A-Z]{16}\b|\bAIza[\w-]{30,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
    re.DOTALL,
)
_ADDRESS = re.compile(r"(://[^/\s@:]*):[^/\s@]+@")
_BEARER = re.compile(r"(?i)(\bbearer\s+)[\w.~+/-]{16,}=*")
# `token = "ab12..."`: a value with a digit in it, so that plain sentences about tokens stay.
_ASSIGNED = re.compile(
    r"""(?ix)((?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key)\w*["'`]*\s*[:=]\s*["'`]*)"""
    r"""(?=[^\s"'`]*\d)[^\s"'`]{8,}"""
)


def secrets_of(env: Mapping[str, str]) -> tuple[str, ...]:
    """Values of variables that are named like secrets; the longest first, so that none leaves a rest of another."""
    found = {value for name, value in env.items() if _NAME.search(name) and len(value) >= _SHORTEST}
    return tuple(sorted(found, key=len, reverse=True))


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    text = _SHAPES.sub(HIDDEN, text)
    text = _ADDRESS.sub(rf"\1:{HIDDEN}@", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    return _ASSIGNED.sub(rf"\1{HIDDEN}", text)
