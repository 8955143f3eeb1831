"""`teamwright land`: queues finished branches and lands them, one at a time, each checked on what it lands on."""

import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from msgspec import Struct

from teamwright.app.landing.check import remember_check
from teamwright.app.landing.queue import LandingPlace, landing_here, with_choices
from teamwright.app.options import Options
from teamwright.core.data.landing import LandEntry, LandId
from teamwright.core.errors import ToolError, UsageError
from teamwright.host.git.run import locate
from teamwright.library.trust.decision import what_would_run
from teamwright.runtime.landing.runner import BusyError
from teamwright.runtime.landing.service import NO_CHECK
from teamwright.store.db.database import Database
from teamwright.surfaces.commands.landing_names import draft_for, find_named
from teamwright.surfaces.commands.tables import local_time, print_json, print_table
from teamwright.surfaces.port.stored import tell_notes
from teamwright.surfaces.reports.landing import STATES, about_entry, landing_record, seconds_of
from teamwright.surfaces.signals import STATUS, heed_signals
from teamwright.tools.bounds import visible

LOOK = 0.5  # seconds between two looks of --watch
PATIENCE = 5.0  # seconds until it tries again what it could not land
LIMIT_ASK = 3  # times that it asks for an answer


_Work = Callable[[LandingPlace, "_LandArgs"], Awaitable[int]]


class _LandArgs(Struct, frozen=True):
    names: tuple[str, ...]
    priority: int
    target: str
    check: str | None
    as_json: bool


def run_land(parser: ArgumentParser, args: Sequence[str]) -> int:
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a branch, worktree or agent that is ready (default: all that waits)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="show the queue, and change nothing")
    what.add_argument("--watch", action="store_true", help="keep running: land whatever becomes ready, until Ctrl-C")
    what.add_argument("--queue", action="store_true", help="only put NAME into the queue")
    what.add_argument("--give-up", action="store_true", help="take NAME out of the queue; its commits are kept")
    parser.add_argument("--priority", type=int, default=0, metavar="N", help="higher ones land first (default: 0)")
    parser.add_argument("--target", default="", metavar="BRANCH", help="land on this branch")
    parser.add_argument(
        "--check", type=_command, metavar="COMMAND", help="the command that must pass; remembered for this project"
    )
    parser.add_argument("--trust", action="store_true", help="treat this directory as trusted")
    parser.add_argument("--no-sandbox", action="store_true", help="run checks without the sandbox")
    found = parser.parse_args(args)
    if (found.queue or found.give_up) and not found.names:
        parser.error("--queue and --give-up need a NAME")
    if found.list and found.names:
        parser.error("--list takes no names")
    asked = _LandArgs(tuple(found.names), found.priority, found.target, found.check, found.json)
    options = Options(cwd=Path.cwd(), trust=found.trust, sandbox=False if found.no_sandbox else None)
    work = next((one for name, one in _ACTIONS.items() if getattr(found, name)), _land)
    try:
        return anyio.run(_opened, options, work, asked)
    except ToolError as error:
        raise UsageError(str(error)) from None


def _command(text: str) -> str:
    """A check. An empty one, of a variable that is unset, would check nothing and be remembered."""
    if not text.strip():
        raise ArgumentTypeError("it is empty; `true` checks nothing")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError("it is not UTF-8") from None
    return text


async def _opened(options: Options, work: _Work, asked: _LandArgs) -> int:
    """Returns the exit status. A signal leaves no tree of the queue behind."""
    ended: list[int | ToolError | UsageError] = []
    caught: list[signal.Signals] = []
    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            group.start_soon(heed_signals, scope, caught)
            async with landing_here(options) as place:
                tell_notes(place.state)
                try:
                    ended.append(await work(place, asked))
                except (ToolError, UsageError) as error:  # kept until after the task group, which would wrap it
                    ended.append(error)
        group.cancel_scope.cancel()
    if caught:
        return STATUS[caught[0]]
    if isinstance(ended[0], int):
        return ended[0]
    raise ended[0]


# --- actions


async def _list(place: LandingPlace, asked: _LandArgs) -> int:
    entries = await place.landing.entries()
    if asked.as_json:
        print_json([landing_record(entry) for entry in entries])
    elif not entries:
        _say("nothing is in the landing queue here")
    else:
        rows = [
            [
                str(e.id),
                e.draft.branch,
                e.draft.target,
                STATES[e.state],
                about_entry(e),
                local_time(e.changed),
                e.reason,
            ]
            for e in entries
        ]
        print_table([["ID", "BRANCH", "ONTO", "STATE", "OWNER", "SINCE", "REASON"], *rows])
    return 0


async def _queue(place: LandingPlace, asked: _LandArgs) -> int:
    queued = [await _queue_one(place, name, asked) for name in asked.names]
    if asked.as_json:
        print_json([landing_record(entry) for entry in queued])
    for entry in queued if not asked.as_json else ():
        _say(f"{entry.draft.branch} waits to land on {entry.draft.target}: number {entry.id}")
    return 0


async def _queue_one(place: LandingPlace, name: str, asked: _LandArgs) -> LandEntry:
    draft = await draft_for(place, name, target=asked.target, priority=asked.priority)
    return await place.landing.queue(draft)


async def _give_up(place: LandingPlace, asked: _LandArgs) -> int:
    entries = await place.landing.entries()
    done = [await place.landing.give_up(find_named(entries, name).id, "a person gave it up") for name in asked.names]
    if asked.as_json:
        print_json([landing_record(entry) for entry in done])
    for entry in done if not asked.as_json else ():
        _say(f"{entry.draft.branch} is given up; `teamwright worktrees --all` lists where its commits are kept")
    return 0


async def _land(place: LandingPlace, asked: _LandArgs) -> int:
    """Status 1 if something did not land."""
    await _choose(place, asked)
    only = [(await _queue_one(place, name, asked)).id for name in asked.names] or None
    lines = _Lines(quiet=asked.as_json)
    end = await place.landing.run(lines.tell, only)
    if asked.as_json:
        print_json([landing_record(entry) for entry in end.done])
    else:
        await _sum_up(place, end.blocked, end.held, only)
        if not end.done and not end.blocked and not end.held:
            _say("nothing waits to land; `teamwright land NAME` queues a branch and lands it")
    return 1 if end.blocked or end.held or any(entry.state != "landed" for entry in end.done) else 0


async def _sum_up(place: LandingPlace, blocked: str, held: Mapping[LandId, str], only: Sequence[LandId] | None) -> None:
    entries = {entry.id: entry for entry in await place.landing.entries()}
    waiting = [e for e in entries.values() if e.state == "waiting" and (only is None or e.id in only)]
    for id, why in held.items():
        _say(f"{entries[id].draft.branch} waits: {why}")
    if blocked:
        many = "1 branch" if len(waiting) == 1 else f"{len(waiting)} branches"
        _say(f"stopped with {many} waiting: {blocked}")


async def _watch(place: LandingPlace, asked: _LandArgs) -> int:
    """Also shows what others land here. It ends only by a signal."""
    await _choose(place, asked)
    for name in asked.names:
        await _queue_one(place, name, asked)
    lines = _Lines(quiet=False, all_states=True)
    known = await place.landing.entries()
    lines.skip([entry for entry in known if not entry.is_open])
    _say("waiting for branches that are ready; Ctrl-C ends this")
    while True:
        seen = await place.state.database.data_version()  # before the look, so that later changes are news
        found = await place.landing.entries()
        for entry in found:
            lines.tell(entry)
        if any(entry.is_open for entry in found):
            with suppress(BusyError):  # another process that lands here changes the entries, which is seen above
                await place.landing.run(lines.tell)
        await _news(place.state.database, seen)


async def _news(database: Database, seen: int) -> None:
    """Returns when another process has changed something, or when what blocked the queue may be gone."""
    with anyio.move_on_after(PATIENCE):
        while await database.data_version() == seen:
            await database.pause(LOOK)


_ACTIONS: dict[str, _Work] = {"list": _list, "watch": _watch, "queue": _queue, "give_up": _give_up}


# --- the check


async def _choose(place: LandingPlace, asked: _LandArgs) -> None:
    """Set target and check for this run. The check is given now, set before, or asked for once, in a repository."""
    await locate(place.workspace.cwd)
    with_choices(place.landing, target=asked.target)
    if asked.check is not None:
        remember_check(place.workspace, asked.check)
        with_choices(place.landing, check=asked.check)
    if place.landing.choices.check is not None:
        return
    if asked.as_json or not sys.stdin.isatty():
        workspace = place.workspace
        unread = not workspace.trusted and what_would_run(workspace.project, workspace.own_files).settings
        untrusted = " The settings of this directory are not read: it is not trusted." if unread else ""
        raise UsageError(NO_CHECK + untrusted)
    check = _ask()
    remember_check(place.workspace, check)
    with_choices(place.landing, check=check)


def _ask() -> str:
    for _ in range(LIMIT_ASK):
        sys.stderr.write("Which command checks this project, for example `make test`? (`true` checks nothing) ")
        sys.stderr.flush()
        if check := sys.stdin.readline().strip():
            return check
    raise UsageError(NO_CHECK)


# --- lines


class _Lines:
    """One line for each entry that was decided or cannot go on, with time and reason."""

    def __init__(self, *, quiet: bool, all_states: bool = False) -> None:
        self._quiet, self._all = quiet, all_states
        self._told: dict[LandId, tuple[str, str]] = {}

    def skip(self, entries: Sequence[LandEntry]) -> None:
        self._told |= {entry.id: (entry.state, entry.reason) for entry in entries}

    def tell(self, entry: LandEntry) -> None:
        before, now = self._told.get(entry.id), (entry.state, entry.reason)
        self._told[entry.id] = now
        told = self._all or entry.state not in ("waiting", "trying")
        if self._quiet or not told or before == now:
            return
        clock, about = local_time(entry.changed)[11:], about_entry(entry)
        took = "" if entry.state in ("waiting", "trying") else seconds_of(entry)
        parts = (
            clock,
            f"{STATES[entry.state]:9}",
            entry.draft.branch,
            f"({about})" if about else "",
            took,
            entry.reason,
        )
        _say("  ".join(part for part in parts if part))


def _say(line: str) -> None:
    sys.stdout.write(visible(line).replace("\n", " ") + "\n")
    sys.stdout.flush()
