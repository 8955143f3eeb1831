"""Reads JSON files written by people."""

from pathlib import Path
from typing import Any

from teamwright.core.jsontext import decode_object
from teamwright.osfiles.reading import read_whole

MOST_JSON = 4_000_000


def read_json(path: Path, problems: list[str] | None = None) -> dict[str, Any] | None:
    """The JSON object in a file; None if there is no file. Raises SettingsError with file, line and column.

    `problems` as in `decode_object`.
    """
    data = read_whole(path, MOST_JSON)
    return None if data is None else decode_object(data, str(path), problems)
