"""A path in the settings that opens something to sandboxed programs."""

from msgspec import Struct


class PathEntry(Struct, frozen=True):
    """A path, perhaps with wildcards, that opens something. `within`: only what really lies there counts."""

    path: str
    within: str = ""
