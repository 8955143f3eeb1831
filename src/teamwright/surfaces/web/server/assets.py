"""The files of the page, at addresses that change with their content, so that a browser may keep them."""

import gzip
import hashlib
from importlib.resources.abc import Traversable

KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".html": "text/html; charset=utf-8",
}
File = tuple[str, bytes, bytes]  # content type, raw content, compressed content


class Assets:
    def __init__(self, folder: Traversable) -> None:
        found = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}
        shell = found.pop("index.html")
        every = b"".join(name.encode() + data for name, data in sorted(found.items()))
        self._stamp = hashlib.sha256(every).hexdigest()[:16]
        self._files = {name: _file(name, data) for name, data in found.items()}
        self.shell = _file("index.html", shell.replace(b"STAMP", self._stamp.encode()))

    def find(self, path: str) -> File | None:
        stamp, _, name = path.partition("/")
        return self._files.get(name) if stamp == self._stamp else None


def _file(name: str, data: bytes) -> File:
    suffix = name[name.rfind(".") :]
    return KINDS.get(suffix, "application/octet-stream"), data, gzip.compress(data, 9, mtime=0)
