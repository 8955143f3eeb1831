"""`teamwright tasks`: prints the task list of a session or a team from the store."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import anyio

from teamwright.core.data.tasks import listed
from teamwright.core.errors import UsageError
from teamwright.store.files.paths import Home, home_from, list_sessions, one_session
from teamwright.store.mirrors.task import record
from teamwright.store.tables.tasks import Listing, TaskTable
from teamwright.surfaces.commands.tables import print_json, print_table
from teamwright.surfaces.port.stored import opened_store
from teamwright.tools.bounds import visible


def run_tasks(parser: ArgumentParser, args: Sequence[str]) -> int:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--team", metavar="NAME", help="show the tasks of this team")
    which.add_argument("--session", metavar="ID", help="show the tasks of this session (default: the last one here)")
    found = parser.parse_args(args)
    if found.engine or os.environ.get("TEAMWRIGHT_ENGINE"):
        from teamwright.surfaces.commands.through_engine import look_through  # noqa: PLC0415

        look_through(found.engine)
    return show_tasks(found.team, found.session, as_json=found.json)


def show_tasks(team: str | None, session: str | None, *, as_json: bool) -> int:
    home = home_from(os.environ)
    owner = None if team else _session(home, session)
    if team is None and owner is None:
        name, listing = str(Path.cwd()), Listing(())  # no session here yet, so no tasks
    else:
        name, listing = anyio.run(_read, home, team, owner)
    for problem in listing.problems:
        sys.stderr.write(f"teamwright: {visible(problem)}\n")
    if as_json:
        print_json([record(task) for task in listing.tasks])
    elif not listing.tasks:
        sys.stdout.write(visible(f"no tasks in {name}") + "\n")
    else:
        rows = [[f"#{t.id}", t.status, t.owner or "", listed(t.blocked_by), t.subject] for t in listing.tasks]
        print_table([["ID", "STATUS", "OWNER", "WAITS FOR", "SUBJECT"], *rows])
    return 0


def _session(home: Home, session: str | None) -> str | None:
    """The session that is named, or the last one here."""
    if session is not None:
        return one_session(home, session).stem
    here = list_sessions(home, Path.cwd())
    return here[0].id if here else None


async def _read(home: Home, team: str | None, session: str | None) -> tuple[str, Listing]:
    """The session's own list, or that of the team which took it over."""
    name = team or session or ""
    if not home.state.exists():
        return name, Listing(())
    async with opened_store(home) as state:
        table = TaskTable(state.database)
        if team is not None:
            known = await table.lists()
            if team not in known:
                raise UsageError(f"there are no tasks for team {team}; lists: {', '.join(known) or 'none'}")
        else:
            teams = [found for found in await table.lists(session) if found != session]
            name = teams[-1] if teams else name
        return name, await table.list(name)
