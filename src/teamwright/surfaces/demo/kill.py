"""`teamwright demo --kill`: plays the story in a process that is killed half-way, then in another one that resumes it.

The closing summary is read from the task list, the mail log, the transcripts and git.
"""

import os
import select
import subprocess
import sys
from collections import Counter

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.event import LettersTaken
from teamwright.core.data.tasks import Task
from teamwright.core.errors import TeamwrightError
from teamwright.core.ids import LetterId
from teamwright.store.files import transcripts
from teamwright.store.tables.mail import MailEntry, MailTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.tasks import TaskTable
from teamwright.surfaces.demo.screen import Screen
from teamwright.surfaces.demo.shop import TASKS, git, tests_pass
from teamwright.surfaces.demo.stage import LIMIT, DemoPlan
from teamwright.surfaces.demo.story import TEAM
from teamwright.tools.agents.tasks import line_of

COMMITS = ("A banner", "A shop", "Prices with two digits", "cheapest() of an empty list is None")


class Held(Struct, frozen=True):
    """What is on the disk."""

    tasks: tuple[Task, ...]
    mail: tuple[MailEntry, ...]
    read: Counter[LetterId]  # how often each letter occurs in a transcript


class KillCheck(Struct, frozen=True):
    good: bool
    words: str


def play_with_kill(plan: DemoPlan, screen: Screen) -> int:
    killed = _play_until_the_moment(plan)
    before = anyio.run(look, plan)
    _tell_of_the_kill(screen, killed, before)
    ended = _play_to_the_end(replace(plan, resume=True))
    after = anyio.run(look, plan)
    screen.say()
    screen.say("What was not lost", "bold")
    checks = [*check(before, after), *check_work(plan)]
    if ended:
        checks.append(KillCheck(good=False, words=f"the second process ended with {ended}"))
    for found in checks:
        screen.say(f"{'+' if found.good else 'x'} {found.words}", "green" if found.good else "red")
    return 0 if all(found.good for found in checks) else 1


def _play_until_the_moment(plan: DemoPlan) -> int:
    """Returns the id of the killed process."""
    ours, theirs = os.pipe()
    child = _start(replace(plan, moment=theirs), theirs)
    os.close(theirs)
    try:
        ready, _, _ = select.select([ours], [], [], LIMIT)
        if not ready or not os.read(ours, 1):
            raise TeamwrightError("the demo did not come to the moment at which it is killed")
    finally:
        os.close(ours)
        child.kill()
        child.wait(LIMIT)
    return child.pid


def _play_to_the_end(plan: DemoPlan) -> int:
    """Returns the exit status."""
    child = _start(plan)
    try:
        return child.wait(2 * LIMIT)
    except subprocess.TimeoutExpired:
        raise TeamwrightError(f"the resumed demo did not end within {2 * LIMIT:g} s") from None
    finally:
        child.kill()
        child.wait(LIMIT)


def _start(plan: DemoPlan, *fds: int) -> "subprocess.Popen[bytes]":
    sys.stdout.flush()
    argv = [sys.executable, "-m", "teamwright.surfaces.demo.stage", msgspec.json.encode(plan).decode()]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=fds)


def _tell_of_the_kill(screen: Screen, pid: int, held: Held) -> None:
    unread = [entry for entry in held.mail if entry.state == "stored" and not held.read[entry.id]]
    screen.say()
    screen.say(f"kill -9 {pid}", "red")
    screen.say("The process is gone, in the middle of it all: lead, ada and ben. What is on the disk:")
    for task in held.tasks:
        screen.say(f"  {line_of(task)}", "dim")
    for entry in unread:
        screen.say(f"  unread, {entry.from_name} to {entry.to_name}: {entry.summary or entry.text[:60]}", "dim")
    screen.say()
    screen.say("A new process resumes the session. Nobody tells it what to do.", "bold")
    screen.say()


# --- what is on the disk


async def look(plan: DemoPlan) -> Held:
    state = await StateStore.open(plan.home / "state.db")
    try:
        tasks = (await TaskTable(state.database).list(TEAM)).tasks
        mail = await MailTable(state.database).audit(TEAM)
    finally:
        await state.close()
    read: Counter[LetterId] = Counter()
    for file in sorted((plan.home / "projects").rglob("*.jsonl")):
        for _, line in transcripts.read(file):
            if isinstance(line.event, LettersTaken):
                read.update(line.event.letters)
    return Held(tasks, tuple(mail), read)


def check(before: Held, after: Held) -> list[KillCheck]:
    return [_check_tasks(before, after), *_check_mail(before, after)]


def _check_tasks(before: Held, after: Held) -> KillCheck:
    done = [task for task in after.tasks if task.status == "completed"]
    kept = {task.id for task in before.tasks if task.status == "completed"}
    good = len(done) == len(after.tasks) == len(TASKS) and kept < {task.id for task in done}
    return KillCheck(good, f"tasks: {len(done)} of {len(TASKS)} completed, {len(kept)} of them before the kill")


def _check_mail(before: Held, after: Held) -> list[KillCheck]:
    unread = [entry.id for entry in before.mail if entry.state == "stored" and not before.read[entry.id]]
    texts = {entry.id for entry in after.mail}
    late = [id for id in unread if after.read[id] == 1 and id in texts]
    once = [entry for entry in after.mail if after.read[entry.id] == 1]
    return [
        KillCheck(
            bool(unread) and len(late) == len(unread),
            f"messages unread at the kill: {len(unread)}; read once since then: {len(late)}",
        ),
        KillCheck(
            len(once) == len(after.mail) and max(after.read.values(), default=0) == 1,
            f"messages in all: {len(after.mail)}; read exactly once: {len(once)}",
        ),
    ]


def check_work(plan: DemoPlan) -> list[KillCheck]:
    commits = sorted(git(plan.shop, "log", "--no-merges", "--format=%s").splitlines())
    clean = git(plan.shop, "status", "--porcelain") == ""
    passed = tests_pass(plan.shop)
    return [
        KillCheck(
            commits == sorted(COMMITS) and clean, f"commits: {len(commits)}, each once, and nothing left lying about"
        ),
        KillCheck(passed, "The tests pass." if passed else "The tests still fail."),
    ]
