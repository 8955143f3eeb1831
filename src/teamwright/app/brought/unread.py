"""Setup that a person brings and we do not use: one line when it is new; `teamwright doctor` lists all of it."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from teamwright.app.workspace import Workspace
from teamwright.core.data.extensions.unread import Unread, in_one_line
from teamwright.core.errors import SettingsError
from teamwright.osfiles.private import make_dirs, replace_file
from teamwright.osfiles.reading import read_plain

if TYPE_CHECKING:
    from teamwright.app.agents.registry import AgentRegistry
    from teamwright.app.extensions.service import Configured

# Another program's variables that have an effect here, or that it sets for the programs it starts.
VARIABLES = frozenset(
    """CLAUDE_CODE_API_KEY_HELPER_TTL_MS CLAUDE_CODE_COORDINATOR_MODE CLAUDE_CODE_DISABLE_BACKGROUND_TASKS
    CLAUDE_CODE_DISABLE_TERMINAL_TITLE CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING CLAUDE_CODE_ENABLE_TELEMETRY
    CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_EXECPATH CLAUDE_CODE_FORK_SUBAGENT CLAUDE_CODE_SDK_READS_SESSION_STATE
    CLAUDE_CODE_SESSION_ID CLAUDE_CODE_SSE_PORT""".split()
)


def all_unread(workspace: Workspace, written: "Configured", registry: "AgentRegistry") -> tuple[Unread, ...]:
    settings = (one for layer in workspace.settings.layers for one in layer.unread)
    return tuple(dict.fromkeys((*registry.unread, *written.unread, *settings)))


def unread_variables(env: Mapping[str, str]) -> tuple[str, ...]:
    """Variables for another program that are set and have no effect here."""
    return tuple(sorted(name for name in env if name.startswith("CLAUDE_CODE_") and name not in VARIABLES))


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
        make_dirs(file.parent)
        replace_file(file, told, synced=False)
    return line
