"""The main screens, letter by letter. After an intended change: `pytest THIS_FILE --update-snapshots`."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stage import staged
from tui_parts import Host, ask, mail, make_view, question, screen_text, side_host, task, until

from conftest import Walker
from teamwright.library.trust.decision import Part, TrustContents
from teamwright.models.scripted import call, thinking
from teamwright.runtime.port import Crew, RewindPoint, RewindPreview
from teamwright.store.files.paths import home_from
from teamwright.surfaces.terminal.dialogs.offer_screen import OfferScreen
from teamwright.surfaces.terminal.dialogs.picker import SessionPicker
from teamwright.surfaces.terminal.dialogs.question_list import QuestionsScreen, screen_for
from teamwright.surfaces.terminal.dialogs.rewind import RewindPicker, ask_what
from teamwright.surfaces.terminal.dialogs.trust_screen import TrustScreen

pytestmark = pytest.mark.anyio

SNAPSHOTS = Path(__file__).parent / "snapshots"
PRICES = "def cheapest(prices):\n    return min(prices)\n"
ANSWER = (
    "# Mended\n\n`cheapest([])` is **None** now, 最安値.\n\n1. one\n2. two\n\n```python\nmin([], default=None)\n```\n"
)
FIX = [
    [thinking("min() raises."), "I look at it.", call("Read", file_path="prices.py")],
    [call("Bash", command="echo one; echo two; exit 3")],
    [call("Edit", file_path="prices.py", old_string="min(prices)", new_string="min(prices, default=None)")],
    ANSWER,
]
PLAN = "# A banner\n\n1. Write it.\n2. Test it.\n"
ASKED = [{
    "question": "Which wire format?", "header": "Format", "multiSelect": False,
    "options": [{"label": "JSON", "description": "plain"}, {"label": "CBOR", "description": "small"}],
}]  # fmt: skip
# What differs from run to run (times, clocks, ids) is replaced, by text of the same length where possible.
_MASKS = (
    (re.compile(r"\d\d:\d\d:\d\d"), "HH:MM:SS"),
    (re.compile(r"\b\d\d:\d\d\b"), "HH:MM"),
    (re.compile(r" *\b\d+ h \d\d min| *\b\d+ min \d\d s| *\b\d+(?:\.\d)? s\b"), ""),
    (re.compile(r"\b[0-9a-f]{8}\b"), "SESSION1"),
    (re.compile(r"Teamwright \d\S+"), "Teamwright VERSION"),
    (re.compile(r" · [\d.]+k context"), ""),
)
_STEPS = ("✓", "✗", "●", "○", "◐", "├", "└")
Check = Callable[[str], None]


@pytest.fixture
def same(request: pytest.FixtureRequest, tmp_path: Path) -> Check:
    """Does the screen equal its snapshot?"""

    def check(text: str) -> None:
        name = re.sub(r"\W+", "-", request.node.name.removeprefix("test_")).strip("-")
        lines = [_masked(line.replace(str(tmp_path), "/tmp")) for line in text.split("\n")]
        shown, file = "\n".join(lines).rstrip() + "\n", SNAPSHOTS / f"{name}.txt"
        if request.config.getoption("--update-snapshots"):
            file.write_text(shown)
        assert shown == file.read_text(), f"{name} has changed:\n{shown}"

    return check


def _masked(line: str) -> str:
    for pattern, words in _MASKS:
        line = pattern.sub(words, line)
    line = line.rstrip(" ·")
    return re.sub(r" {3,}", "   ", line) if line.lstrip()[:1] in _STEPS else line  # their end moves with the time


async def shown(host: Host, size: tuple[int, int], words: str) -> str:
    async with host.run_test(size=size) as pilot:
        await until(pilot, lambda: words in screen_text(host))
        last = ""
        while last != (last := screen_text(host)):  # a panel is laid out again once its rows are there
            await pilot.pause(0.1)
        return last


async def test_the_first_screen(walker: Walker, same: Check) -> None:
    async with staged(walker, size=(90, 16)) as stage:
        await stage.shows("Ask, or type")
        await stage.shows("/help  F2 team")
        same(re.sub(r"(?m)^ +/\S+/project$", "    /project", stage.screen))


@pytest.mark.parametrize(("size", "theme"), [((100, 34), "dark"), ((60, 20), "dark"), ((100, 34), "none")])
async def test_a_conversation(walker: Walker, same: Check, size: tuple[int, int], theme: str) -> None:
    (walker.project / "prices.py").write_text(PRICES)
    options: dict[str, Any] = {"mode": "acceptEdits", "allowed_tools": ["Bash"]}
    async with staged(walker, FIX, size=size, theme=theme, prompt="The tests fail. Why?", **options) as stage:
        await stage.shows("min([], default=None)")
        await stage.rests()
        await stage.press("tab", "enter")
        await stage.shows("+     return min(prices, default=None)")
        await stage.press("escape")
        await stage.shows("F2 team")
        same(stage.screen)


@pytest.mark.parametrize("width", [60, 100])
async def test_a_permission_dialog(same: Check, width: int) -> None:
    asked = question(command="git push \\\n  --force origin main\x1b[2J", description="pushes")
    same(await shown(Host(lambda: screen_for(asked, make_view().agents, others=2)), (width, 22), "say why"))


@pytest.mark.parametrize("width", [60, 100])
async def test_a_long_command_is_read_before_a_yes(same: Check, width: int) -> None:
    lines = "\n".join(f"echo {n}" for n in range(60))
    asked = question(command=f"echo hi{' ' * 4000}; touch x\n{lines}", suggestions=())
    same(await shown(Host(lambda: screen_for(asked, make_view().agents)), (width, 22), "to allow it"))


async def test_trust_shows_everything(same: Check) -> None:
    parts = (
        Part("hooks, which run commands", ("Stop: make lint", "agent cook, PreToolUse (Bash): ./taste.sh")),
        Part("git settings, which run programs", ("filter.x.smudge = touch ~/x; cat",)),
        Part("rules, which answer questions for you", ("allow Bash(*)",)),
        Part("directories beyond this one", ("~/.ssh",)),
    )
    host = Host(lambda: TrustScreen(TrustContents(Path("/home/me/project"), parts=parts)))
    same(await shown(host, (80, 30), "Yes, I trust it"))


@pytest.mark.parametrize(("width", "tier"), [(60, "landlock"), (100, "bwrap")])
async def test_the_sandbox_is_offered(same: Check, width: int, tier: str) -> None:
    same(await shown(Host(lambda: OfferScreen(tier)), (width, 20), "Yes, turn it on"))


async def test_a_change_is_asked_for(same: Check) -> None:
    change = question(tool="Edit", file_path="/p/a.py", old_string="a\nold\nb", new_string="a\nnew\nb")
    same(await shown(Host(lambda: screen_for(change, make_view().agents)), (100, 24), "say why"))


@pytest.mark.parametrize(("size", "theme"), [((100, 24), "dark"), ((60, 24), "none")])
async def test_a_checklist(walker: Walker, same: Check, size: tuple[int, int], theme: str) -> None:
    made = [call("TaskCreate", subject=f"Part {n} of a long work: 部品", description="x") for n in range(1, 8)]
    doing = call("TaskUpdate", taskId="2", status="in_progress", activeForm="Mending part 2")
    script = [made, [call("TaskUpdate", taskId="1", status="completed"), doing], "Say how."]
    async with staged(walker, script, size=size, theme=theme, prompt="All of it") as stage:
        await stage.shows("▸ Mending part 2")
        await stage.rests()
        await stage.shows("F2 team")
        same(stage.screen)


async def test_a_plan(same: Check) -> None:
    asked = question(tool="ExitPlanMode", suggestions=(), name="main", agent="main-1", plan=PLAN)
    same(await shown(Host(lambda: screen_for(asked, make_view().agents)), (80, 20), "carry out the plan"))


async def test_a_question_of_an_agent(same: Check) -> None:
    asked = question(tool="AskUserQuestion", suggestions=(), questions=ASKED)
    same(await shown(Host(lambda: screen_for(asked, make_view().agents)), (80, 16), "Skip"))


async def test_several_questions(same: Check) -> None:
    view = make_view()
    ask(view, question("q1"), question("q2", agent="a2", name="bert", command="make all\nmake test"))
    host = Host(lambda: QuestionsScreen(lambda: view.questions, view.agents))  # type: ignore[arg-type]
    same(await shown(host, (80, 18), "always: Bash"))


@pytest.mark.parametrize("width", [60, 100])
async def test_agents(same: Check, width: int) -> None:
    view = make_view()
    ask(view, question("q1", agent="a3", name="Explore", command="make all"))
    same(await shown(side_host(view, "agents"), (width, 18), "waits for your answer"))


@pytest.mark.parametrize("width", [60, 100])
async def test_tasks(same: Check, width: int) -> None:
    done, at_work = task(1, "write the parser", "completed", "ada"), task(2, "write the printer", "in_progress", "bert")
    crew = Crew(("site",), (done, at_work, task(3, "try both", "pending", None, 2), task(4, "document it")))
    same(await shown(side_host(make_view(), "tasks", crew), (width, 14), "document it"))


@pytest.mark.parametrize("width", [60, 100])
async def test_mail(same: Check, width: int) -> None:
    letters = (mail(1, "team-lead", "ada", "please write"), mail(2, "ada", "bert", "where it is", state="stored"))
    same(await shown(side_host(make_view(), "mail", Crew(("site",), (), letters)), (width, 14), "where it is"))


async def test_sessions(walker: Walker, same: Check) -> None:
    await walker.walk(["done"], ["Mend the prices"])
    home = home_from(walker.env)
    host = Host(lambda: SessionPicker(home, walker.project))
    text = await shown(host, (90, 16), "Mend the prices")
    same(re.sub(r"sessions, \S+", "sessions, /project", text))


NOON = 43_200_000  # of a day that is over everywhere
POINTS = [
    RewindPoint(3, NOON, "prompt", "Mend the prices, please\nand test them", 2, 14, 3),
    RewindPoint(9, NOON, "prompt", "Now the tests; 最安値 too", 1, 5, 0, ("a command in the background",)),
    RewindPoint(17, NOON, "rewind", files=1),
    RewindPoint(19, NOON, "prompt", "Document it"),
]
WOULD = RewindPreview(
    ("/p/prices.py", "/p/src/shop.py"),
    ("/p/new.py",),
    ("/p/src/shop.py",),
    ("/p/data.bin: no copy was kept: it has 30,000,000 bytes, more than the 20,000,000 that are kept",),
    ("not covered: a command in the background",),
)


@pytest.mark.parametrize("width", [60, 100])
async def test_points_to_rewind_to(same: Check, width: int) -> None:
    same(await shown(Host(lambda: RewindPicker(POINTS)), (width, 16), "Document"))


async def test_what_a_rewind_would_do(same: Check) -> None:
    same(await shown(Host(lambda: ask_what(POINTS[0], WOULD, "/p")), (90, 22), "the conversation and 3 files"))


@pytest.mark.parametrize("command", ["help", "keys"])
async def test_pages(walker: Walker, same: Check, command: str) -> None:
    async with staged(walker, size=(80, 60)) as stage:
        await stage.say(f"/{command}")
        await stage.shows(f"/{command}\n")
        await stage.shows("/help  F2 team")
        same(re.sub(r"(?m)^ +/\S+/project$", "    /project", stage.screen))
