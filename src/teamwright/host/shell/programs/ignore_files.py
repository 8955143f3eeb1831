"""Ignore files as `rg` reads them: a line that starts with `!` includes a hidden file."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

_MOST_BYTES = 1 << 20
_IN_FOLDER = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
_ASKS = re.compile(rb"(?m)^(?:\xef\xbb\xbf)?!")
_NAMES_ANOTHER = re.compile(rb"(?i)excludesfile|\[include")


def may_be_asked_for(path: str, home: str) -> bool:
    """Does any ignore file on the way, or one of the person's own, include something? Unreadable files count as
    such."""
    settings = [f"{home}/.gitconfig", *(f"{folder}/git/config" for folder in _config_folders(home))]
    own = [f"{folder}/git/ignore" for folder in _config_folders(home)]
    if any(_holds(file, _NAMES_ANOTHER) for file in settings):
        return True
    return any(_holds(file, _ASKS) for file in (*own, *_on_the_way(path)))


def _config_folders(home: str) -> set[str]:
    return {f"{home}/.config", os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"}


def _on_the_way(path: str) -> Iterator[str]:
    return (str(folder / name) for folder in Path(path).parents for name in _IN_FOLDER)


def _holds(file: str, pattern: re.Pattern[bytes]) -> bool:
    try:
        with open(file, "rb") as stream:
            text = stream.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return len(text) > _MOST_BYTES or pattern.search(text) is not None
