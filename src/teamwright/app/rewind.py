"""Builds the keeper of a session's files, and the rewinding that brings them back."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.core.data.event import Warned
from teamwright.core.ports import Keeper
from teamwright.store.tables.state import now_ms

if TYPE_CHECKING:
    from teamwright.app.services import Services
    from teamwright.runtime.permissions.call_facts import FactReader
    from teamwright.runtime.rewind.commands import CommandWatch
    from teamwright.runtime.rewind.service import Rewinding


def open_keeper(services: "Services") -> Keeper:
    """Keeps files that somebody may want back. It costs nothing before the first call that changes one."""
    from teamwright.runtime.rewind.keeper import FileKeeper  # noqa: PLC0415
    from teamwright.store.files.checkpoints import Checkpoints  # noqa: PLC0415

    return FileKeeper(
        Checkpoints(services.store.files),
        services.registry.catalog,
        partial(_facts, services),
        roots=partial(_roots, services),
        warn=_Warner(services),
        commands=partial(_watch, services),
    )


class _Warner:
    """Tells the person only once, but the log each time."""

    def __init__(self, services: "Services") -> None:
        self._services, self._told = services, False

    def __call__(self, words: str) -> None:
        self._services.log(words)
        if not self._told:
            self._told = True
            self._services.tell(self._services.main, Warned(words))


def _roots(services: "Services") -> set[Path]:
    """Where the session works, and where its main agent does if it has moved into a worktree."""
    main = services.supervisor.agent(services.main)
    cwd = services.workspace.cwd
    return {cwd.resolve(), *((main.desk.roots[0],) if main is not None else ())}


def _facts(services: "Services") -> "FactReader":
    return services.facts


def _watch(services: "Services") -> "CommandWatch":
    from teamwright.runtime.rewind.commands import CommandWatch  # noqa: PLC0415
    from teamwright.store.files.checkpoints import Checkpoints  # noqa: PLC0415

    home = services.workspace.home
    return CommandWatch(Checkpoints(services.store.files), home.root.resolve(), now_ms)


def open_rewinding(services: "Services") -> "Rewinding":
    from teamwright.runtime.rewind.service import Rewinding  # noqa: PLC0415
    from teamwright.store.files.checkpoints import Checkpoints  # noqa: PLC0415

    files = services.store.files
    return Rewinding(services, Checkpoints(files), files.transcript, keeps=services.options.keep_files)
