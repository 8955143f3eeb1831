"""The demo tells its whole story, even if it is killed halfway; and what it says at the end was really checked."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from program import Program
from teamwright.core.data.tasks import Task, TaskId
from teamwright.core.ids import LetterId
from teamwright.store.tables.mail import MailEntry
from teamwright.surfaces.demo.kill import Held, check, check_work
from teamwright.surfaces.demo.shop import FILES, TASKS, git, make_shop
from teamwright.surfaces.demo.shop import tests_pass as all_pass
from teamwright.surfaces.demo.stage import PACE, STEP, DemoPlan
from teamwright.surfaces.demo.story import PARTS

STORY = [
    "lead I look at the tests first",
    r"lead \+ a team: shop",
    r"lead \+ task #3: write banner.py \(waits for #1, #2\)",
    r"(ada|ben) \* joins the team, in a worktree",  # both are made at the same time
    r"(ada|ben) \* joins the team, in a worktree",
    r"ada \* claims #1",
    r"ben \* claims #2",
    r"ben \* completes #2",
    r"ben \* to ada: label",
]
AFTERWARDS = [
    "ben #2 is done, on the branch worktree-",
    r"ben \* is idle",
    r"ada \* completes #1",
    r"ben \* claims #3",
    r"ben \* wakes up",
    r"ada \* to ben: where",
    r"ada \* is idle",
    r"ben \+ git merge",
    r"ben \* completes #3",
    r"lead \+ git merge",
    r"lead \* asks ada to shut down",
    r"ada \* agrees to shut down",
    r"ada \* has shut down",
    r"ben \* has shut down",
    "lead Three commits",
]


def told(out: str) -> list[str]:
    """Each line with the name of its speaker."""
    who, lines = "", []
    for line in out.splitlines():
        found = re.match(r" *(lead|ada|ben)  (?=\S)", line)
        who = found[1] if found and found.end() == 7 else who
        lines.append(f"{who} {line[7:]}" if line[:7] == " " * 7 or found else line)
    return lines


def assert_order(lines: list[str], wanted: list[str]) -> None:
    at = 0
    for pattern in wanted:
        found = [n for n, line in enumerate(lines[at:], at) if re.match(pattern, line)]
        assert found, f"{pattern} is not told after {lines[at - 1] if at else 'the start'!r}:\n" + "\n".join(lines)
        at = found[0] + 1


@pytest.fixture
def temp() -> Iterator[Path]:
    """A short temporary directory, like a real one: socket paths have a limit."""
    with TemporaryDirectory() as found:
        yield Path(found)


def test_the_whole_story_is_told_and_nothing_is_left(program: Program, temp: Path) -> None:
    ran = program.run("demo", "--fast", env={"TMPDIR": str(temp)})
    assert (ran.rc, ran.err) == (0, ""), ran.out
    lines = told(ran.out)
    assert_order(lines, [*STORY, *AFTERWARDS, "The tests pass."])
    assert lines[-1] == "The tests pass." and "refused" not in ran.out
    assert list(temp.iterdir()) == [] and not program.state.exists()


@pytest.mark.spec("T6")
def test_the_team_goes_on_after_a_kill_and_loses_nothing(program: Program, temp: Path) -> None:
    ran = program.run("demo", "--fast", "--kill", "--keep", env={"TMPDIR": str(temp)})
    assert (ran.rc, ran.err) == (0, ""), ran.out
    before, _, rest = ran.out.partition("\nkill -9 ")
    disk, _, after = rest.partition("A new process resumes")
    story, _, checks = after.partition("What was not lost")
    assert_order(told(before), STORY)
    assert "#1 [in_progress]" in disk and "#2 [completed]" in disk and "[blocked by #1]" in disk
    assert "unread, ben to ada: label() takes cents" in disk
    assert_order(told(story), AFTERWARDS)
    assert "claims #1" not in story and "claims #2" not in story  # nobody starts over
    assert [line[0] for line in checks.strip().splitlines()[:5]] == ["+"] * 5
    (kept,) = temp.iterdir()
    assert str(kept) in checks and all_pass(kept / "shop")


def test_a_git_setup_in_the_environment_does_not_matter(program: Program, temp: Path) -> None:
    git(program.project, "init", "-q")
    who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    hook = {"GIT_DIR": str(program.project / ".git"), "GIT_INDEX_FILE": str(program.project / ".git" / "index")}
    ran = program.run("demo", "--fast", "--plain", env={"TMPDIR": str(temp)} | who | hook)
    assert (ran.rc, ran.err) == (0, ""), ran.out
    assert told(ran.out)[-1] == "The tests pass."
    assert not git(program.project, "rev-list", "--all") and "Demo" not in git(program.project, "config", "--list")


def test_it_is_over_before_anybody_yawns() -> None:
    replies = [line for part in PARTS.values() for line in part]
    slow = sum(len(line.words) for line in replies) / PACE + len(replies) * STEP
    assert slow < 10


# --- the checks can fail


def held(*, status: str = "completed", state: str = "delivered", reads: int = 1) -> Held:
    tasks = [Task(TaskId(n), subject, status="completed") for n, (subject, _) in enumerate(TASKS, 1)]
    tasks[-1] = replace(tasks[-1], status=status)
    mail = MailEntry(1, LetterId("m"), "shop", "ben", "ada", "s", "", "t", state, "", 1, None, None, None)
    return Held(tuple(tasks), (mail,), Counter({LetterId("m"): reads}))


BEFORE = held(status="pending", state="stored", reads=0)


def test_what_is_well_is_said_to_be_well() -> None:
    assert [found.good for found in check(BEFORE, held())] == [True, True, True]


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        (held(status="in_progress"), [0]),
        (held(reads=0), [1, 2]),  # lost
        (held(reads=2), [1, 2]),  # read twice
        (Held(held().tasks[:2], held().mail, held().read), [0]),
        (Held(held().tasks, (), held().read), [1]),
    ],
)
def test_what_was_lost_or_done_twice_is_found(after: Held, wrong: list[int]) -> None:
    assert [n for n, found in enumerate(check(BEFORE, after)) if not found.good] == wrong


def test_a_shop_that_nobody_mended_is_found(tmp_path: Path) -> None:
    plan = DemoPlan(str(tmp_path), "s")
    make_shop(plan.shop)
    assert [found.good for found in check_work(plan)] == [False, False]
    assert git(plan.shop, "ls-files").split() == sorted(FILES)
