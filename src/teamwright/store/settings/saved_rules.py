"""Writes permission rules into a settings file: merged into what is there, and replaced as a whole."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, cast

from teamwright.core.errors import SettingsError
from teamwright.core.jsontext import decode_object
from teamwright.osfiles.json_store import alone_with, replace
from teamwright.store.settings.file import read_bytes

LOCAL = ".teamwright/settings.local.json"
Behaviour = Literal["allow", "ask", "deny"]


def change_rules(
    file: Path, behaviour: Behaviour, *, add: Iterable[str] = (), remove: Iterable[str] = (), state: Path
) -> bool:
    """False if there was nothing to change. Raises StoreError for a file that must not be written over."""
    with alone_with(file, state):
        if linked := next((path for path in (file.parent, file) if path.is_symlink()), None):
            raise SettingsError(f"{linked} is a link, and rules are saved in a true file of the project only")
        data = read_bytes(file)
        whole = {} if data is None else decode_object(data, str(file))
        before = _list(file, whole, behaviour)
        gone = frozenset(remove)
        after = list(dict.fromkeys([*(rule for rule in before if rule not in gone), *add]))
        if after == before:
            return False
        whole.setdefault("permissions", {})[behaviour] = after
        if not after:
            del whole["permissions"][behaviour]
        replace(file, whole)
        return True


def _list(file: Path, whole: dict[str, Any], behaviour: Behaviour) -> list[Any]:
    permissions = whole.get("permissions", {})
    if not isinstance(permissions, dict):
        raise SettingsError(f"{file}: `permissions` must be an object")
    found = cast("dict[str, Any]", permissions).get(behaviour, [])
    if not isinstance(found, list):
        raise SettingsError(f"{file}: `permissions.{behaviour}` must be a list")
    return cast("list[Any]", found)
