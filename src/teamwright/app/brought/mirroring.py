"""Copies our sessions to another program's, for its readers, and imports its sessions that are to be resumed here."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from teamwright.core.data.claude_lines import CONFIG, folder_of, projects_of
from teamwright.core.data.event import Record, Warned
from teamwright.core.errors import UsageError
from teamwright.library.claude.sessions import find_session
from teamwright.runtime.agents.resume import Opened, Origin
from teamwright.store.files.paths import Home, find_transcript, is_session_id

if TYPE_CHECKING:
    from teamwright.app.services import Services


def open_mirror(services: "Services", opened: Opened) -> None:
    """Copy the session, if the person or the starting program wants that."""
    options, wanted = services.options, services.workspace.own.mirror_sessions
    if wanted is False or (wanted is None and not options.env.get(CONFIG)):
        return
    from teamwright.store.mirrors.session import SessionMirror  # noqa: PLC0415  # most sessions have none

    started = opened.history.started
    assert started is not None
    path = projects_of(options.env) / folder_of(started.cwd) / f"{opened.id}.jsonl"
    cwd = str(services.workspace.cwd)

    def warn(words: str) -> None:
        services.tell(services.main, Warned(words))

    def hear(record: Record) -> None:
        mirror.hear(record, cwd)

    mirror = SessionMirror(path, opened.id, warn)
    if not mirror.take_over(services.reread(services.main, 0), started.cwd) and not started.imported:
        services.notes.append(f"{path} has lines that are not known here: what was said elsewhere since is missing")
    services.bus.tap(hear)


def bring(origin: Origin, home: Home, env: Mapping[str, str]) -> None:
    """Import a session that is to be resumed and is only there. Raises UsageError if that cannot be done."""
    id = (origin.resume or "").lower()
    if not env.get(CONFIG) or not is_session_id(id) or find_transcript(home, id):
        return
    found = find_session(projects_of(env), id)
    if found is None:
        return
    from teamwright.app.brought.importing import import_session  # noqa: PLC0415

    outcome = import_session(found, home)
    if outcome.error:
        raise UsageError(f"session {id} cannot be brought here from {found.path}: {outcome.error}")
