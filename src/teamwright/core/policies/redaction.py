"""Redacts text that looks like a secret. This is a safety net: it knows only common shapes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

HIDDEN = "[secret]"
WITHHELD = "(hidden)"  # replaces a whole value
_SHORTEST = 8  # characters: shorter values also occur in ordinary words
_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|COOKIE|AUTH(?!OR(_|$))", re.IGNORECASE)
_PLACE = re.compile(
    r"(env|file|path|dir|sock|name|names|bindings|helper)$", re.IGNORECASE
)  # where the secret is, not the secret
_COUNT = re.compile(r"(?:^|_)(?:MAX|MIN|NUM)_(?:\w+_)?TOKENS$", re.IGNORECASE)  # token limits of a model
_SHORT_NAME = re.compile(r"(?:^|[_-])(?:PAT|PWD|PW|SIG|SIGNATURE|JWT|BEARER)$", re.IGNORECASE)
# Variables in settings belong to programs we do not know: only these kinds are shown.
_PLAIN_VARIABLE = re.compile(r"(?:URL|HOST|PORT|PATH|DIR|FILE|HOME|LANG|TZ|MODEL|MODE|LEVEL|VERSION)$")
_PLAIN_VALUE = re.compile(r"\d*|true|false|yes|no|on|off", re.IGNORECASE)
_SHAPES = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:sk|pk|rk)-[\w-]{16,}"
    r"|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bxox[abeprs]-[\w-]{10,}"
    r"|\bA(?:KIA|SIA)[0-9A-Z]{16}\b|\bAIza[\w-]{30,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
    re.DOTALL,
)
_ADDRESS = re.compile(r"(://[^/\s@:]*):[^/\s]+@")
_TOKEN_ADDRESS = re.compile(r"(://)[^/\s@:]{8,}@")
_QUERY = re.compile(
    r"""(?i)([?&;#](?:[\w.%-]*(?:key|token|secret|pass|credential|auth|signature|sig|session|jwt)[\w.%-]*"""
    r"""|code|pwd|pw|pat|sid)=)[^&;#\s"'`]+"""
)
# `me:password@host`, as proxies may be written, and passwords with a slash that should have been `%2F`.
_ODD_ADDRESS = re.compile(r"^((?:[a-z+]+://)?[^/\s@:]+):(?!//)[^\s@]+@(?=[^\s@]+$)")
_LOGIN = re.compile(r"""((?<!\S)(?:-u|--user|--proxy-user)(?:=|\s+)["']?[^\s"':]*:)[^\s"']+""")
_FLAG = re.compile(
    r"(?i)(?<![\w-])(--?[\w-]*(?:key|token|secret|pass(?:word|wd|phrase)?|credentials?|auth)(?:=|\s+))"
    r"""(?!-)["'`]?[^\s"'`]+"""
)
_HEADER = re.compile(
    r"(?i)(\b(?:proxy-)?authorization|\b[\w-]*(?:api-?key|token|secret|cookie))(\s*:\s*(?:bearer|basic|token)?\s*)"
    r"""(?!\$)[^\s"'`,]+"""
)
_BEARER = re.compile(r"(?i)(\bbearer\s+)[\w.~+/-]{16,}=*")
# `token = "ab12..."`: the value must contain a digit, so that sentences about tokens stay readable.
_ASSIGNED = re.compile(
    r"""(?ix)((?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key)\w*["'`]*\s*[:=]\s*["'`]*)"""
    r"""(?=[^\s"'`]*\d)[^\s"'`]{8,}"""
)


def secrets_of(env: Mapping[str, str]) -> tuple[str, ...]:
    """Values of variables named like secrets; longest first, so that a shorter one leaves no remainder of a longer
    one."""
    found = {value for name, value in env.items() if _NAME.search(name) and len(value) >= _SHORTEST}
    return tuple(sorted(found, key=len, reverse=True))


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    text = _SHAPES.sub(HIDDEN, text)
    text = _ADDRESS.sub(rf"\1:{HIDDEN}@", text)
    text = _TOKEN_ADDRESS.sub(rf"\1{HIDDEN}@", text)
    text = _QUERY.sub(rf"\1{HIDDEN}", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    return _ASSIGNED.sub(rf"\1{HIDDEN}", text)


# --- settings and the like, where the name tells what is secret


def is_secret_name(name: str) -> bool:
    named = _SHORT_NAME.search(name) or _NAME.search(name)
    return bool(named) and not _PLACE.search(name) and not _COUNT.search(name)


def concealed(value: Any, name: str = "", secrets: Iterable[str] = ()) -> Any:
    """The value of a setting as a person may see it. `name` is its whole path, as `mcp.notes.headers.X-Key`."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: concealed(inner, f"{name}.{key}", secrets) for key, inner in fields.items()}
    if isinstance(value, (list, tuple)):
        return list(_listed(cast("list[Any]", value), name, secrets))
    if not isinstance(value, str):
        return value
    if _is_withheld(name) or _is_unknown_variable(name, value):
        return WITHHELD if value else value
    text = _LOGIN.sub(rf"\1{HIDDEN}", value)
    if name.lower().endswith(("url", "uri", "proxy", "host", "address", "endpoint")):
        text = _ODD_ADDRESS.sub(rf"\1:{HIDDEN}@", text)
    text = _FLAG.sub(rf"\1{HIDDEN}", redacted(text, secrets))
    return _HEADER.sub(rf"\1\2{HIDDEN}", text)


def withheld(value: Any) -> tuple[str, ...]:
    """Values in it that are secret by name, longest first: they may occur elsewhere too."""
    found = {text for text in _strings(value) if len(text) >= _SHORTEST}
    return tuple(sorted(found, key=len, reverse=True))


def _strings(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield from _strings(inner, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for inner in cast("list[Any]", value):
            yield from _strings(inner, name)
    elif isinstance(value, str) and _is_withheld(name):
        yield value


def _is_withheld(name: str) -> bool:
    """Everything under `headers` (or `extraHeaders`), and everything named like a secret."""
    above, _, own = name.rpartition(".")
    return any(part.endswith("headers") for part in above.lower().split(".")) or is_secret_name(own)


def _is_unknown_variable(name: str, value: str) -> bool:
    above, _, own = name.rpartition(".")
    plain = _PLAIN_VARIABLE.search(own.upper()) or _PLAIN_VALUE.fullmatch(value)
    return "env" in above.split(".") and not plain


def _listed(items: list[Any], name: str, secrets: Iterable[str]) -> Iterator[Any]:
    """In a command line, the argument after `--token` is a secret."""
    before = ""
    for item in items:
        follows = before.startswith("-") and "=" not in before and is_secret_name(before)
        yield WITHHELD if follows and isinstance(item, str) else concealed(item, name, secrets)
        before = item if isinstance(item, str) else ""
