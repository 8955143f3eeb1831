"""Setup that a person brings and we do not use: one line when it is new; `teamwright doctor` lists all of it."""

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from teamwright.app.workspace import Workspace
from teamwright.core.data.extensions.unread import Unread, in_one_line
from teamwright.core.errors import SettingsError
from teamwright.osfiles.private import replace_file
from teamwright.osfiles.reading import read_plain

if TYPE_CHECKING:
    from teamwright.app.agents.registry import AgentRegistry
    from teamwright.app.extensions.service import Configured


def all_unread(workspace: Workspace, written: "Configured", registry: "AgentRegistry") -> tuple[Unread, ...]:
    settings = (one for layer in workspace.settings.layers for one in layer.unread)
    return tuple(dict.fromkeys((*registry.unread, *written.unread, *settings)))


def news_of_unread(unread: Sequence[Unread], workspace: Workspace) -> str:
    """One line for the person; empty if they have seen exactly this before, in this project."""
    if not unread:
        return ""
    line = in_one_line(unread)
    project = hashlib.sha256(os.fsencode(workspace.project)).hexdigest()[:24]
    file = workspace.home.root / "cache" / f"unread-{project}"
    told = hashlib.sha256("\n".join(one.text for one in unread).encode(errors="replace")).hexdigest().encode()
    with suppress(SettingsError):
        if read_plain(file, len(told) + 1, follow=False) == told:
            return ""
    with suppress(OSError):  # then it is shown again
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, told, synced=False)
    return line
