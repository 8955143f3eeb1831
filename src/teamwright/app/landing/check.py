"""The check of a project's landing queue: from settings, or as a person once named it."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from teamwright.app.workspace import Workspace
from teamwright.osfiles.private import make_dir, replace_file
from teamwright.store.files.paths import slug

if TYPE_CHECKING:
    from teamwright.runtime.landing.service import LandChoices


class _Remembered(Struct, frozen=True):
    check: str


def check_of(workspace: Workspace) -> str | None:
    """None: nobody has said. A project's settings count only if it is trusted; otherwise they are not read."""
    said = workspace.own.land.check
    return _remembered(workspace) if said is None else said


def choices_of(workspace: Workspace) -> "LandChoices":
    from teamwright.runtime.landing.service import LandChoices  # noqa: PLC0415

    land, links = workspace.own.land, workspace.settings.symlink_directories
    return LandChoices(check_of(workspace), land.check_seconds, land.target or "", land.method, land.ahead, links)


def _remembered(workspace: Workspace) -> str | None:
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(_file(workspace).read_bytes(), type=_Remembered).check
    return None


def remember_check(workspace: Workspace, check: str) -> None:
    """Remember it in our own state, which programs in the sandbox cannot reach and repositories cannot bring along."""
    file = _file(workspace)
    make_dir(file.parent)
    replace_file(file, msgspec.json.encode(_Remembered(check)), synced=False)


def _file(workspace: Workspace) -> Path:
    return workspace.home.root / "landing" / f"{slug(workspace.project)}.json"
