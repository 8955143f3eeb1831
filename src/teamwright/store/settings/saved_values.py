"""Writes single values into the person's own settings file: merges them into its content, and replaces it as a
whole."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from teamwright.core.errors import SettingsError, UsageError
from teamwright.core.jsontext import decode_object
from teamwright.osfiles.json_store import alone_with, replace
from teamwright.osfiles.reading import read_whole
from teamwright.store.settings.file import MOST_BYTES, fields_of, fit
from teamwright.store.settings.schema import PARTS, SettingsFile

FILE = "settings.json"


def save_values(state: Path, values: Mapping[str, Any]) -> Path:
    """Save values such as `{"teamwright.notify": "off"}`; None removes a key. Everything else in the file stays.

    Returns the file. Raises UsageError for a value that does not fit, StoreError if the file cannot be read or written.
    """
    for key, value in values.items():
        if value is not None:
            check_value(key, value)
    file = (state / FILE).resolve()  # people may keep it behind a link
    with alone_with(file, state):
        data = read_whole(file, MOST_BYTES)
        whole: dict[str, Any] = {} if data is None else decode_object(data, str(file))
        for key, value in values.items():
            _put(file, whole, key, value)
        replace(file, whole)
    return file


def save_sandbox(state: Path, *, on: bool) -> Path:
    """Turn the sandbox for the person's commands on or off; returns the settings file. Raises StoreError."""
    return save_values(state, {"sandbox.enabled": on, "sandbox.autoAllowBashIfSandboxed": on})


def kind_of(key: str) -> Any:
    """The type of a setting. Raises UsageError for an unknown name."""
    kind: Any = SettingsFile
    for name in key.split("."):
        fields = fields_of(kind) if kind in PARTS else {}
        if name not in fields:
            raise UsageError(f"there is no setting {key}")
        kind = fields[name]
    return kind


def check_value(key: str, value: Any) -> None:
    """Raises UsageError if the value does not fit."""
    wrong: list[str] = []

    def say(where: str, what: str) -> None:
        wrong.append(what.removesuffix("; ignored"))

    fit(value, kind_of(key), key, say)
    if wrong:
        raise UsageError(f"{key}: {wrong[0]}")


def _put(file: Path, whole: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    block, opened = whole, list[tuple[dict[str, Any], str]]()
    for n, name in enumerate(path, 1):
        inner = block.setdefault(name, {})
        if not isinstance(inner, dict):
            raise SettingsError(f"{file}: `{'.'.join(path[:n])}` must be an object")
        opened.append((block, name))
        block = cast("dict[str, Any]", inner)
    if value is not None:
        block[last] = value
        return
    block.pop(last, None)
    for outer, name in reversed(opened):  # leave nothing empty behind
        if not outer[name]:
            del outer[name]
