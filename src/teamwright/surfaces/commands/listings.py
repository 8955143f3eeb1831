"""The listing commands: sessions, cost, config. Plain tables for people, `--json` for programs."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec

from teamwright.app import Options, open_workspace
from teamwright.app.sandbox import tier_of
from teamwright.app.workspace import read_rules
from teamwright.core.errors import SessionBusy, SessionMissing, UsageError
from teamwright.core.ids import SessionId
from teamwright.core.policies.redaction import redacted, secrets_of
from teamwright.core.policies.spawn import FORK
from teamwright.store.files.paths import (
    Home,
    SessionEntry,
    home_from,
    list_sessions,
    one_session,
)
from teamwright.store.settings.load import describe
from teamwright.store.tables.state import Cost
from teamwright.surfaces.commands.tables import local_time, print_json, print_table
from teamwright.surfaces.port.deleting import delete_stored
from teamwright.surfaces.port.stored import opened_store, tell_notes
from teamwright.surfaces.reports.cost import AgentCost, cost_of
from teamwright.tools.bounds import visible

DAY_MS = 86_400_000
_SHORT_ID = 9  # characters of an id in a table; `--json` has all of it


# --- sessions


def show_sessions(*, everywhere: bool, as_json: bool) -> int:
    home, cwd = home_from(os.environ), Path.cwd()
    entries = _with_words(home, list_sessions(home, None if everywhere else cwd))
    if as_json:
        print_json([_entry(entry) for entry in entries])
    elif not entries:
        place = "anywhere" if everywhere else f"in {cwd}; --all lists those of other directories"
        sys.stdout.write(f"no sessions {place}\n")
    else:
        head = ["ID", "LAST USED", *(["DIRECTORY"] if everywhere else []), "FIRST PROMPT"]
        print_table([head, *(_row(entry, everywhere=everywhere) for entry in entries)])
    return 0


def _with_words(home: Home, entries: list[SessionEntry]) -> list[SessionEntry]:
    """Leave out sessions in which nothing was said, unless they lead a team or are faulty."""
    if all(entry.said for entry in entries):
        return entries
    from teamwright.surfaces.view.team_digest import read_teams  # noqa: PLC0415  # seldom needed

    teams = anyio.run(read_teams, home, tell_notes)
    return [entry for entry in entries if entry.said or entry.fault or entry.id in teams]


def _entry(entry: SessionEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "cwd": entry.cwd,
        "modified": entry.modified,
        "bytes": entry.size,
        "name": entry.name or None,
        "prompt": entry.prompt,
        "imported": entry.imported or None,
        "path": str(entry.path),
        "fault": entry.fault or None,
    }


def _row(entry: SessionEntry, *, everywhere: bool) -> list[str]:
    used = local_time(entry.modified)[:-3]
    mark = "(imported) " if entry.imported else ""
    words = f"({entry.fault})" if entry.fault else f"{mark}{(entry.name or entry.prompt)[:80]}"
    return [entry.id, used, *([entry.cwd] if everywhere else []), words]


def delete_sessions(ids: Sequence[str], *, older_than: float | None) -> int:
    """Removes transcripts, outputs and rows of the store. A running session is left alone."""
    if bool(ids) == (older_than is not None):
        raise UsageError("sessions delete: give ids, or --older-than DAYS")
    if older_than is not None and not older_than >= 0:  # also `nan`
        raise UsageError("sessions delete: --older-than takes a number of days, 0 or more; nothing was deleted")
    home = home_from(os.environ)
    try:
        paths = list(dict.fromkeys(one_session(home, id) for id in ids))
    except (SessionMissing, UsageError) as error:
        raise type(error)(f"{error}; nothing was deleted") from None
    if older_than is not None:
        limit = time.time() * 1000 - older_than * DAY_MS
        paths = [entry.path for entry in list_sessions(home) if entry.modified < limit]
    busy = anyio.run(delete_stored, home, paths)
    sys.stdout.write(f"deleted {len(paths) - len(busy)} of {len(paths)} sessions\n")
    if busy:
        raise SessionBusy(f"still running, not deleted: {', '.join(busy)}")
    return 0


# --- cost


def show_cost(session: str | None, *, as_json: bool) -> int:
    costs = anyio.run(_costs, session)
    found = cost_of(costs)
    agents, forks = found.agents, [c for c in costs if c.kind == FORK]
    if as_json:
        print_json(found)
    elif not agents:
        sys.stdout.write("no usage yet\n")
    else:
        head = ["AGENT", "NAME", "INPUT", "CACHED", "OUTPUT", "TURNS", "TIME", "COST", "MODEL"]
        print_table([head, *(_cost_row(row, depth) for row, depth in [*_tree(agents), (found.total, 0)])])
        if found.saved_by_cache_usd or not found.unknown_cost:
            sys.stdout.write(f"saved by the prompt cache: ${found.saved_by_cache_usd:.4f}\n")
        if forks:
            sys.stdout.write(_forks_line(forks, found.saved_by_forks_usd))
    return 0


def _forks_line(forks: Sequence[Cost], saved: float) -> str:
    read, count = sum(c.usage.cache_read for c in forks), len({c.agent for c in forks})
    return f"  of that by {count} forks: ${saved:.4f} ({read:,} tokens of what they inherited)\n"


async def _costs(session: str | None) -> list[Cost]:
    home = home_from(os.environ)
    named = None if session is None else SessionId(one_session(home, session).stem)
    if not home.state.exists():
        return []
    async with opened_store(home) as state:
        return await state.costs(named)


def _tree(rows: Sequence[AgentCost]) -> list[tuple[AgentCost, int]]:
    """Each agent below the one that started it, with its depth."""
    ids = {row.id for row in rows}
    below: dict[str | None, list[AgentCost]] = {}
    for row in rows:
        below.setdefault(row.parent if row.parent in ids else None, []).append(row)
    out: list[tuple[AgentCost, int]] = []
    waiting = [(row, 0) for row in reversed(below.get(None, []))]
    while waiting:
        row, depth = waiting.pop()
        out.append((row, depth))
        waiting += [(child, depth + 1) for child in reversed(below.get(row.id, []))]
    return out


def _cost_row(row: AgentCost, depth: int) -> list[str]:
    share = 100 * row.cached_tokens / row.input_tokens if row.input_tokens else 0
    return [
        "  " * depth + row.id[:_SHORT_ID].rstrip("-"),
        row.name,
        f"{row.input_tokens:,}",
        f"{share:.0f} %",
        f"{row.output_tokens:,}",
        str(row.turns),
        f"{row.seconds:.1f} s",
        _money(row.usd, unknown=row.unknown_cost),
        ", ".join(row.models) if row.session else "",
    ]


def _money(usd: float, *, unknown: bool) -> str:
    if not unknown:
        return f"${usd:.4f}"
    return f"${usd:.4f} + unknown" if usd else "unknown"


# --- config


def show_config(settings: str | None, *, trust: bool, as_json: bool) -> int:
    """Returns 1 if something in a settings file has no effect."""
    options = Options(cwd=Path.cwd(), settings=settings, trust=trust)
    ground = open_workspace(options)
    wrong = read_rules(options, ground)[1]
    secrets, status = secrets_of(ground.env), 1 if ground.settings.problems or wrong else 0
    rows, notes = describe(ground.settings, secrets), [redacted(note, secrets) for note in (*ground.notes, *wrong)]
    tier, idle = tier_of(options, ground), list(ground.settings.sandbox.without_effect)
    if as_json:
        print_json(
            {
                "cwd": str(ground.cwd),
                "project": str(ground.project),
                "home": str(ground.home.root),
                "trusted": ground.trusted,
                "problems": notes,
                "sandbox": {"tier": tier, "withoutEffect": idle},
                "settings": [{"key": k, "value": v, "source": s, "file": f or None} for k, v, s, f in rows],
            }
        )
        return status
    trusted = "trusted" if ground.trusted else "not trusted: its settings are not read"
    sys.stdout.write(
        f"project {visible(str(ground.project))} ({trusted}); state in {visible(str(ground.home.root))}\n"
        f"sandbox {tier}{'; read without effect: ' + ', '.join(idle) if idle else ''}\n\n"
    )
    print_table([["KEY", "VALUE", "FROM"], *([k, _value(v), f"{s} {f}".strip()] for k, v, s, f in rows)])
    for note in notes:
        sys.stderr.write(f"teamwright: {visible(note)}\n")
    return status


def _value(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
