"""Writes permission rules into a settings file: merges them into its content, and replaces it as a whole."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from teamwright.core.errors import SettingsError
from teamwright.core.jsontext import decode_object
from teamwright.core.permissions.consent import Behaviour
from teamwright.osfiles.json_store import alone_with, replace
from teamwright.osfiles.reading import read_whole
from teamwright.store.settings.file import MOST_BYTES


def change_rules(
    file: Path, behaviour: Behaviour, *, add: Iterable[str] = (), remove: Iterable[str] = (), state: Path
) -> bool:
    """Rules are as the file spells them. False: nothing to change. Raises StoreError if the file could not be
    changed."""
    with alone_with(file, state):
        if linked := next((path for path in (file.parent, file) if path.is_symlink()), None):
            raise SettingsError(f"{linked} is a link, and rules are saved in a true file of the project only")
        data = read_whole(file, MOST_BYTES)
        whole = {} if data is None else decode_object(data, str(file))
        block, name = place_of(behaviour)
        before = _list(file, whole, block, name)
        gone = frozenset(remove)
        after = list(dict.fromkeys([*(rule for rule in before if rule not in gone), *add]))
        if after == before:
            return False
        part = whole.setdefault(block, {})
        part[name] = after
        if not after:
            del part[name]
        if not part:
            del whole[block]
        if whole:
            replace(file, whole)
        else:
            file.unlink()  # an empty one would count as settings of the project
        return True


def place_of(behaviour: Behaviour) -> tuple[str, str]:
    """The block of a settings file, and the list in it."""
    return ("sandbox", "excludedCommands") if behaviour == "outside" else ("permissions", behaviour)


def _list(file: Path, whole: dict[str, Any], block: str, name: str) -> list[Any]:
    part = whole.get(block, {})
    if not isinstance(part, dict):
        raise SettingsError(f"{file}: `{block}` must be an object")
    found = cast("dict[str, Any]", part).get(name, [])
    if not isinstance(found, list):
        raise SettingsError(f"{file}: `{block}.{name}` must be a list")
    return cast("list[Any]", found)
