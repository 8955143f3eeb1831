"""Parses the head of a request to the proxy as strictly as possible, and writes the one that goes on.

Anything that two programs could read differently is refused, so that the host that was judged is the one reached.
"""

import base64
import binascii
import re

from msgspec import Struct

from teamwright.core.sandbox.hosts import split_target, with_port

_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([\x21-\x7e]+) HTTP/1\.([01])")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_TARGET = re.compile(r"http://([^/?#]*)((?:[/?][^#]*)?)", re.IGNORECASE)
_LENGTH = re.compile(r"[0-9]{1,15}")
_HOP = frozenset(  # fields about this connection only, and those written anew
    """
    connection content-length host http2-settings keep-alive te trailer transfer-encoding upgrade
    """.split()
)


class RequestHead(Struct, frozen=True):
    """`path` is empty for CONNECT. `length` is the body's, None if it comes in chunks."""

    verb: str
    host: str
    port: int
    path: str
    version: str
    fields: tuple[tuple[str, str], ...]
    token: str
    length: int | None


def parse_head(data: bytes) -> RequestHead:
    """Parses all bytes before the empty line. Raises ValueError that says what is wrong."""
    first, *lines = data.split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise ValueError("the request line is not `VERB TARGET HTTP/1.1`")
    verb, target, minor = (part.decode("ascii") for part in line.groups())
    fields = tuple(_field(text) for text in lines)
    host, port, path = _connect_target(target) if verb == "CONNECT" else _web_target(target)
    length = 0 if verb == "CONNECT" else _body_length(fields)
    return RequestHead(verb, host, port, path, f"HTTP/1.{minor}", fields, _token(fields), length)


def onward(head: RequestHead, *, parent: str | None = None) -> bytes:
    """The head for the host itself, or for a parent proxy with the credentials `parent`."""
    authority = head.host if head.port == 80 and ":" not in head.host else with_port(head.host, head.port)
    target = head.path if parent is None else f"http://{with_port(head.host, head.port)}{head.path}"
    named = {word.strip().lower() for value in _values(head.fields, "connection") for word in value.split(",")}
    kept = [(n, v) for n, v in head.fields if n.lower() not in _HOP | named and not n.lower().startswith("proxy-")]
    framing = [("Transfer-Encoding", "chunked")] if head.length is None else []
    if head.length or _values(head.fields, "content-length"):
        framing = [("Content-Length", str(head.length))]
    own = [("Host", authority), *kept, *framing, *([("Proxy-Authorization", parent)] if parent else [])]
    lines = [f"{head.verb} {target} {head.version}", *(f"{n}: {v}" for n, v in own), "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _field(line: bytes) -> tuple[str, str]:
    found = _FIELD.fullmatch(line)
    if found is None:
        raise ValueError("a header line is not `Name: value`")
    return found[1].decode("ascii"), found[2].decode("latin-1").rstrip(" \t")


def _connect_target(target: str) -> tuple[str, int, str]:
    found = split_target(target)
    if found is None:
        raise ValueError("CONNECT takes `host:port`, a plain name or an address in its usual form")
    return (*found, "")


def _web_target(target: str) -> tuple[str, int, str]:
    found = _TARGET.fullmatch(target)
    if found is None:
        raise ValueError("this is a proxy: it takes `CONNECT host:port` and `VERB http://host/path`")
    place = split_target(found[1], default=80)
    if place is None:
        raise ValueError("the host of the URL is not a plain name or an address in its usual form, without a user")
    path = found[2]
    return (*place, path if path.startswith("/") else f"/{path}")


def _body_length(fields: tuple[tuple[str, str], ...]) -> int | None:
    lengths, codings = _values(fields, "content-length"), _values(fields, "transfer-encoding")
    if len(lengths) + len(codings) > 1:
        raise ValueError("the length of the body is given more than once")
    if codings:
        if codings[0].lower() != "chunked":
            raise ValueError("the only transfer encoding of a request is `chunked`")
        return None
    if lengths and not _LENGTH.fullmatch(lengths[0]):
        raise ValueError("the content length is not a number")
    return int(lengths[0]) if lengths else 0


def _token(fields: tuple[tuple[str, str], ...]) -> str:
    """The password in the credentials; empty if there are none, several, or unreadable ones."""
    given = _values(fields, "proxy-authorization")
    scheme, _, packed = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(packed.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _values(fields: tuple[tuple[str, str], ...], name: str) -> list[str]:
    return [value for written, value in fields if written.lower() == name]
