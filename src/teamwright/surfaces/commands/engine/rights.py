"""Rights of each identity in a space, as the server's own permissions by subject."""

from collections.abc import Mapping
from typing import Literal

Role = Literal["lead", "worker"]


def users_text(space: str, people: Mapping[str, tuple[Role, str]]) -> str:
    """`users.conf`: each identity by its name, with its role and its password."""
    rows = [
        f'  {{ user: "{name}", password: "{password}", permissions: {rights(space, role, name)} }}'
        for name, (role, password) in people.items()
    ]
    return "authorization { users: [\n" + "\n".join(rows) + "\n] }\n"


def rights(space: str, role: Role, name: str) -> str:
    """Each identity writes only under its own name, and never to subjects that only the server pushes (`out`).

    A worker reads the streams, but cannot make, change, purge or delete any. It has no access to snapshots, because
    their readers trust them.
    """
    own = [f"tw.{space}.log.{role}.{name}", f"tw.{space}.lines.{role}.{name}.>", f"tw.{space}.live.>"]
    own += [f"$O.tw_{space}.{kind}.{role}.{name}.>" for kind in "CM"]
    own += [f"$O.tw_{space}_lead.>", "$JS.API.>"] if role == "lead" else _reading(space)
    heard = ["_INBOX.>", f"tw.{space}.out.>", f"tw.{space}.live.>"]
    return f"{{ publish: {_listed(own)}, subscribe: {_listed(heard)} }}"


def _reading(space: str) -> list[str]:
    streams = (f"TW_{space}_LOG", f"TW_{space}_LINES", f"OBJ_tw_{space}", f"OBJ_tw_{space}_lead")
    ways = ("STREAM.INFO", "DIRECT.GET")
    return ["$JS.API.INFO", *(f"$JS.API.{way}.{stream}" for stream in streams for way in ways)]


def _listed(subjects: list[str]) -> str:
    return "[" + ", ".join(f'"{subject}"' for subject in subjects) + "]"
