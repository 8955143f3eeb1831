"""Detects on request whether a settings file has changed during a session."""

import os
from collections.abc import Mapping
from pathlib import Path

Stamp = tuple[int, ...]


def settings_files(project: Path, home: Path, state: Path) -> dict[Path, str]:
    """All files that may hold settings here, with the source name that hooks know them by."""
    files = {home / ".claude" / "settings.json": "user_settings", state / "settings.json": "user_settings"}
    for place in (".claude", ".teamwright"):
        files[project / place / "settings.json"] = "project_settings"
        files[project / place / "settings.local.json"] = "local_settings"
    return files | {Path("/etc/teamwright/managed-settings.json"): "policy_settings"}


class ConfigWatch:
    def __init__(self, files: Mapping[Path, str]) -> None:
        self._files = {str(path): source for path, source in files.items()}
        self._stamps = {path: _stamp(path) for path in self._files}

    def news(self) -> list[tuple[str, str]]:
        """(source, path) of files that changed since the last call."""
        now = {path: _stamp(path) for path in self._files}
        changed = [(self._files[path], path) for path, stamp in now.items() if stamp != self._stamps[path]]
        self._stamps = now
        return changed


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)  # noqa: PTH116  # before every prompt, as text
    except OSError:
        return ()
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
