"""What a team over an engine has done, according to its transcripts there, its commands' output, and every replica."""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
from team_brain import LEAD, MATES
from team_ledger import Diary, Figures, check

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine_kit import Host, caught_up, open_host
from journal import all_rows
from teamwright.store.db.statements import fetch_all
from teamwright.store.engine.wire.address import Address
from teamwright.store.engine.wire.lines import Lines
from teamwright.store.engine.wire.objects import NatsObjects

MARK = re.compile(r"MARK:[\w-]+:[\d.]+")
NOTICE = re.compile(r"<task-notification>.*?<task-id>(\w+)</task-id>", re.DOTALL)


def look_around(
    address: Address, homes: Sequence[Path], bodies: Mapping[str, bytes], marks: Path, project: Path
) -> Figures:
    """Check everything once only the server still runs. `homes`: those of all machines."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        faults = anyio.run(partial(_gather, address, homes, root))
        figures = check(root, bodies)
        figures.faults += faults
        files = [*(root / "projects").glob("*/*.jsonl"), *(root / "projects").glob("*/*/agents/*.jsonl")]
        diaries = [Diary(file) for file in files]
    _check_commands(diaries, marks, figures)
    _check_jobs(diaries, figures)
    _check_branches(diaries, project, figures)
    return figures


async def _gather(address: Address, homes: Sequence[Path], root: Path) -> list[str]:
    """All transcripts as they are in the engine; and whether all machines have the same rows."""
    faults = list[str]()
    async with open_host(root / "empty", address, joins=False) as fresh:
        expected = await fresh.replica.read(all_rows)
        await _pull(fresh, root)
        for home in homes:
            async with open_host(home, address, joins=False) as host:
                await caught_up(host, fresh)
                rows = await host.replica.read(all_rows)
            differ = [name for name in expected if rows.get(name) != expected[name]]
            if differ or rows.keys() != expected.keys():
                faults.append(f"the replica of {home.parent.name} differs in {differ}")
        sql = "SELECT agent, state, why FROM remotes WHERE why <> '' OR (state <> 'ended' AND team = '')"
        faults += [f"a remote agent: {row}" for row in await fresh.replica.read(fetch_all(sql, ()))]
    return faults


async def _pull(host: Host, root: Path) -> None:
    lines = Lines(host.log, NatsObjects(host.log, 20), "ada", root)
    (session,) = (await host.replica.read(fetch_all("SELECT id FROM sessions", ())))[0]
    main = root / "projects" / "p" / f"{session}.jsonl"
    for agent in await lines.counts():
        path = main if agent == session else main.with_suffix("") / "agents" / f"{agent}.jsonl"
        await lines.pull(agent, path)


def _commands(diary: Diary) -> list[tuple[str, str, bool]]:
    """(mark, result, whether that is an error) of each Bash call."""
    found = [(id, MARK.findall(str(call.args["command"]))) for id, call in diary.calls.items() if call.name == "Bash"]
    return [(words[0], *diary.results.get(id, ("", True))) for id, words in found if words]


def _check_commands(diaries: list[Diary], marks: Path, figures: Figures) -> None:
    """No call has run twice; one that ended well has run, and one reported as not run has not."""
    ran = Counter(marks.read_text().split() if marks.exists() else ())
    figures.faults += [f"{mark} ran {times} times" for mark, times in ran.items() if times > 1]
    known = set[str]()
    for diary in diaries:
        for mark, text, is_error in _commands(diary):
            known.add(mark)
            if ran[mark] != 1 and not is_error:
                figures.faults.append(f"{mark} of {diary.name} has a result and ran {ran[mark]} times")
            if ran[mark] and text.startswith("Not run"):
                figures.faults.append(f"{mark} of {diary.name} has run, and was told not to have")
    figures.faults += [f"{mark} has run, and no transcript has its call" for mark in ran.keys() - known]


def _check_jobs(diaries: list[Diary], figures: Figures) -> None:
    """Each agent that was sent away has reported its end once."""
    lead = next((diary for diary in diaries if diary.name == LEAD), None)
    if lead is None:
        return
    told = Counter(id for text in lead.heard for id in NOTICE.findall(text))
    away = [id for id, call in lead.calls.items() if call.name == "Agent" and call.args.get("isolation") == "remote"]
    for id in away:
        text, is_error = lead.results.get(id, ("", True))
        found = re.search(r"\b(a[0-9a-f]{16})\b", text)
        if not is_error and (found is None or told[found[1]] != 1):
            figures.faults.append(f"job {found and found[1]}: told {found and told[found[1]]} times: {text[:200]}")


def _check_branches(diaries: list[Diary], project: Path, figures: Figures) -> None:
    """What a teammate's finished commands wrote is on its branch in the last lead's repository."""
    argv = ["git", "for-each-ref", "--format=%(refname:short)", "refs/heads"]
    branches = subprocess.check_output(argv, cwd=project, text=True, timeout=60).split()
    for diary in (diary for diary in diaries if diary.name in MATES):
        have = list[Counter[str]]()
        for branch in branches:
            if branch.startswith(f"worktree-{diary.name}"):
                argv = ["git", "show", f"{branch}:work.txt"]
                shown = subprocess.run(argv, cwd=project, text=True, capture_output=True, timeout=60, check=False)
                have.append(Counter(shown.stdout.split()))
        wanted = [mark for mark, _, is_error in _commands(diary) if not is_error]
        missing = min(([m for m in wanted if found[m] != 1] for found in have), key=len, default=wanted)
        if missing:
            figures.faults.append(f"the branch of {diary.name} lacks {missing} ({branches})")
