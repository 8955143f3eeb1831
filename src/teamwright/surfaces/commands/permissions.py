"""`teamwright permissions`, `trust` and `untrust`: rules with their sources, and directories that may bring some."""

import os
import sys
from argparse import ArgumentParser
from pathlib import Path

from teamwright.app import Options, open_workspace
from teamwright.app.saved_rules import drop_rules
from teamwright.app.workspace import Workspace, look_around, read_rules
from teamwright.core.errors import UsageError
from teamwright.core.permissions.rules import Rules
from teamwright.library.trust import decision as trust
from teamwright.library.trust import snapshot
from teamwright.store.settings.schema import LOCAL
from teamwright.surfaces.commands.tables import print_json, print_table
from teamwright.tools.bounds import visible


def run_permissions(parser: ArgumentParser, args: list[str]) -> int:
    parser.add_argument("action", nargs="?", choices=("list", "remove"), default="list")
    parser.add_argument("rules", nargs="*", metavar="RULE", help=f"with remove: a rule of {LOCAL}, in quotes")
    parser.add_argument("--trust", action="store_true", help="treat this directory as trusted")
    found = parser.parse_args(args)
    options = Options(cwd=Path.cwd(), trust=found.trust)
    if found.action == "remove":
        _require_person("permissions remove")
        return _remove(options, found.rules)
    if found.rules:
        raise UsageError("permissions list takes no rules; did you mean `teamwright permissions remove`?")
    return _list(options, as_json=found.json)


def _list(options: Options, *, as_json: bool) -> int:
    ground = open_workspace(options)
    book, wrong = read_rules(options, ground)
    rows = [[kind, str(rule), rule.source] for kind, rule, _ in book.listing()]
    if as_json:
        print_json([{"behaviour": kind, "rule": rule, "source": source} for kind, rule, source in rows])
    elif rows:
        print_table([["", "RULE", "FROM"], *rows])
    else:
        sys.stdout.write("no rules here\n")
    for note in wrong if ground.trusted else [*wrong, *ground.notes]:
        sys.stderr.write(f"teamwright: {visible(note)}\n")
    return 1 if wrong else 0


def _require_person(command: str) -> None:
    """Refuse agents, which see such commands in documents and messages: only the person may change rules and trust."""
    if os.environ.get("TEAMWRIGHT_AGENT_ID"):
        raise UsageError(f"`teamwright {command}` is for the person, not for an agent's command: ask them to run it")


def _remove(options: Options, rules: list[str]) -> int:
    if not rules:
        raise UsageError("permissions remove: give the rule, such as 'Bash(npm run *)'")
    for rule in rules:
        kinds = [kind for kind in ("allow", "ask", "deny", "outside") if drop_rules(options, kind, [rule])]
        if not kinds:
            raise UsageError(f"{_elsewhere(options, rule)}; `teamwright permissions` lists the rules and their sources")
        sys.stdout.write(f"removed from {LOCAL}: {kinds[0]} {visible(rule)}\n")
    return 0


def _elsewhere(options: Options, rule: str) -> str:
    rules: Rules = read_rules(options, open_workspace(options))[0].rules
    known = next((r for r in (*rules.deny, *rules.ask, *rules.allow, *rules.outside) if str(r) == rule), None)
    return f"there is no rule {rule} in {LOCAL}" + (f": it is in the {known.source} settings" if known else "")


# --- trust


def run_trust(parser: ArgumentParser, args: list[str]) -> int:
    parser.add_argument("directory", nargs="?", metavar="DIR", type=Path, help="a project (default: the one here)")
    found = parser.parse_args(args)
    _require_person("trust")
    ground = open_workspace(Options(cwd=found.directory or Path.cwd()))
    state = ground.home.root
    contents, files = look_around(ground)
    snapshot.agree(ground.project, files, state=state)
    trust.trust(ground.project, state=state)
    if found.json:
        parts = {part.title: part.lines for part in contents.parts}
        print_json({"directory": str(ground.project), "trusted": True, "contents": parts})
        return 0
    sys.stdout.write(f"trusted {visible(str(ground.project))}\n")
    for part in contents.parts:
        sys.stdout.write(f"\n{part.title}\n")
        sys.stdout.writelines(f"  {visible(line)}\n" for line in part.lines)
    if contents.parts:
        sys.stdout.write("\nIf any of this changes, you are asked again. `teamwright untrust` takes it back.\n")
    return 0


def run_untrust(parser: ArgumentParser, args: list[str]) -> int:
    parser.add_argument("directory", nargs="?", metavar="DIR", type=Path, help="a project (default: the one here)")
    found = parser.parse_args(args)
    _require_person("untrust")
    ground = open_workspace(Options(cwd=found.directory or Path.cwd()))
    was = _forget(ground)
    listed = trust.is_granted(ground.project, listed=ground.settings.trusted_directories)
    if found.json:
        print_json({"directory": str(ground.project), "trusted": listed, "changed": was})
    else:
        said = "is no longer trusted" if was else "was not trusted"
        sys.stdout.write(f"{visible(str(ground.project))} {said}\n")
    if listed:
        sys.stderr.write("teamwright: teamwright.trustedDirectories of your settings still names it\n")
    return 0


def _forget(ground: Workspace) -> bool:
    """Forget trust along with what was agreed to: a later yes starts anew, and saved rules no longer count."""
    state = ground.home.root
    recorded = snapshot.is_recorded(ground.project, state=state)
    was = trust.untrust(ground.project, state=state)
    snapshot.forget(ground.project, state=state)
    return was or recorded
