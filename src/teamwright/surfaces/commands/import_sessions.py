"""`teamwright import`: takes over sessions of another program on this disk."""

import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from teamwright.app.brought.importing import ImportOutcome, import_session
from teamwright.core.data.claude_lines import projects_of
from teamwright.core.errors import UsageError
from teamwright.core.text import plural
from teamwright.library.claude.sessions import ClaudeSession, find_sessions
from teamwright.store.files.paths import Home, find_transcript, home_from
from teamwright.surfaces.commands.tables import local_time, print_json, print_table
from teamwright.tools.bounds import visible

_BEGINNING = re.compile(r"[0-9a-f-]{4,36}")


def run_import(parser: ArgumentParser, args: Sequence[str]) -> int:
    parser.add_argument(
        "program", nargs="?", choices=("claude",), help="its sessions, below ~/.claude/projects or CLAUDE_CONFIG_DIR"
    )
    parser.add_argument("session", nargs="*", metavar="SESSION", help="session ids or their beginnings")
    parser.add_argument("--list", action="store_true", help="list the sessions (default), and import nothing")
    parser.add_argument("--all", action="store_true", help="import all, of every directory unless --project names one")
    parser.add_argument("--project", metavar="DIR", type=Path, help="sessions of this directory (default: here)")
    found = parser.parse_args(args)
    if found.program is None:
        parser.error("name the program whose sessions you mean: claude")
    if found.session and (found.all or found.list):
        parser.error("give sessions, or --list, or --all")
    home, projects = home_from(os.environ), projects_of(os.environ)
    folder = _folder(found)
    sessions = find_sessions(projects, folder)
    if found.session or (found.all and not found.list):
        wanted = _named(found.session, sessions) if found.session else sessions
        return _import(wanted, home, as_json=found.json)
    return _list(found, sessions, home, projects, folder)


def _folder(found: Namespace) -> Path | None:
    """The directory whose sessions are meant; None: all directories."""
    if found.project is not None:
        return found.project.absolute()
    return None if found.all or found.session else Path.cwd().absolute()


def _named(names: Sequence[str], sessions: Sequence[ClaudeSession]) -> list[ClaudeSession]:
    wanted: dict[str, ClaudeSession] = {}
    for name in names:
        start = name.lower()
        fits = [one for one in sessions if one.id.lower().startswith(start)] if _BEGINNING.fullmatch(start) else []
        if len({one.id for one in fits}) != 1:
            what = "there is no session" if not fits else f"{len(fits)} sessions begin with"
            raise UsageError(f"{what} {name}; `teamwright import claude --list --all` lists them")
        wanted[fits[0].id] = fits[0]
    return list(wanted.values())


def _list(found: Namespace, sessions: list[ClaudeSession], home: Home, projects: Path, folder: Path | None) -> int:
    if found.json:
        print_json([msgspec.to_builtins(one, enc_hook=str) for one in sessions])
        return 0
    where = "" if folder is None else f" of {folder}"
    if not sessions:
        hint = "" if folder is None else "; --list --all lists those of other directories"
        sys.stdout.write(visible(f"no sessions{where} in {projects}{hint}\n"))
        return 0
    head = ["ID", "LAST USED", *([] if folder else ["DIRECTORY"]), "", "TITLE"]
    print_table([head, *(_row(one, home, everywhere=folder is None) for one in sessions)])
    sys.stdout.write("`teamwright import claude ID` imports one, `--all` all of them.\n")
    return 0


def _row(one: ClaudeSession, home: Home, *, everywhere: bool) -> list[str]:
    here = "imported" if find_transcript(home, one.id.lower()) else ""
    return [one.id, local_time(one.modified)[:-3], *([one.cwd] if everywhere else []), here, one.title[:80]]


def _import(sessions: Sequence[ClaudeSession], home: Home, *, as_json: bool) -> int:
    outcomes: list[ImportOutcome] = []
    for session in sessions:
        outcomes.append(import_session(session, home))
        if not as_json:
            _tell(outcomes[-1])
    if as_json:
        print_json([msgspec.to_builtins(one) for one in outcomes])
    else:
        _sum_up(outcomes)
    return 1 if any(one.error for one in outcomes) else 0


def _tell(one: ImportOutcome) -> None:
    told = plural(one.messages, "message") if one.status == "imported" else one.error
    line = f"{one.id}  {one.status}{f', {told}' if told else ''}  {one.title[:80]}"
    sys.stdout.write(visible(line.rstrip()) + "\n")


def _sum_up(outcomes: Sequence[ImportOutcome]) -> None:
    left = sum((Counter(one.left_out) for one in outcomes), Counter[str]())
    asides = sum(one.asides for one in outcomes)
    if left:
        words = ", ".join(f"{kind} ({count})" for kind, count in left.most_common(10))
        sys.stdout.write(visible(f"left out: {words}") + "\n")
    if asides:
        sys.stdout.write(f"not imported: {plural(asides, 'line')} of agents that worked beside these conversations\n")
    fresh = [one for one in outcomes if one.status == "imported"]
    if fresh:
        sys.stdout.write(f"`teamwright --resume {fresh[0].id[:8]}` continues one; `teamwright sessions` lists them.\n")
    elif not outcomes:
        sys.stdout.write("there is nothing to import\n")
