"""Replies of the demo's scripted model. The next reply follows from the conversation alone, so that a resumed session
continues at the right place. A reply may wait for a cue, so that the story always has the same order."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from teamwright.core.data.letter import ELEMENTS
from teamwright.core.data.message import Message, Request, Text, ToolResult
from teamwright.models.script import read_step
from teamwright.models.scripted import ScriptStep, call
from teamwright.surfaces.demo.shop import BANNER, LABELS, PRICES, TASKS

TEAM = "shop"
PROMPT = "The tests of this shop fail. Make a team, each in a tree of its own, and merge their work."
ADA = "You look after prices.py. Do task #1, then tell ben where to find it."
BEN = "You look after labels.py. Do task #2, and tell ada what it means for prices."
ALLOWED = ("Bash(python3 -m unittest *)", "Bash(git add *)", "Bash(git commit *)", "Bash(git merge *)")

_BRANCH = re.compile(r"worktree-\w+")
_REQUEST = re.compile(r"shutdown-[0-9a-f]+")


class SaidInDemo(Struct, frozen=True):
    """A cue: this part has given so many replies."""

    part: str
    replies: int


class StoryLeft(Struct, frozen=True):
    """A cue: these members have shut down."""

    names: tuple[str, ...]


class AskedInDemo(Struct, frozen=True):
    """A cue: this part is about to give that reply, so everything that its earlier replies asked for is done."""

    part: str
    reply: int


class Idle(Struct, frozen=True):
    name: str


Cue = SaidInDemo | AskedInDemo | Idle | StoryLeft
Wait = Callable[[str, int, Cue | None], Awaitable[None]]  # part, number of the reply, its cue


class StoryLine(Struct, frozen=True):
    """A reply, given after its cue: words, then calls, which may depend on the request."""

    words: str = ""
    calls: Callable[[Request], Sequence[Any]] | None = None
    cue: Cue | None = None


def branches(request: Request) -> list[str]:
    """Branches, in the order in which the conversation mentions them."""
    return list(dict.fromkeys(_BRANCH.findall(_text(request))))


def _text(request: Request) -> str:
    """What was said to this agent, including results of tools."""
    found: list[str] = []
    for message in request.messages:
        for block in message.blocks if message.role == "user" else ():
            parts = block.content if isinstance(block, ToolResult) else (block,)
            found += [part.text for part in parts if isinstance(part, Text)]
    return "\n".join(found)


def _always(*calls: Any) -> Callable[[Request], Sequence[Any]]:
    """The same calls, whatever was said before."""

    def give(_: Request) -> Sequence[Any]:
        return calls

    return give


# A model calls tools by their names, and so does the script that plays one.


def _bash(command: str) -> Any:
    return call("Bash", command=command)


def _read(file: str) -> Any:
    return call("Read", file_path=file)


def _send(to: str, message: str | dict[str, Any], **more: str) -> Any:
    return call("SendMessage", to=to, **more, message=message)


def _update(task: int, **change: str) -> Any:
    return call("TaskUpdate", taskId=str(task), **change)


def _run(command: str) -> Callable[[Request], Sequence[Any]]:
    return _always(_bash(command))


def _done(task: int) -> Any:
    return _update(task, status="completed")


def _mine(task: int, name: str) -> Any:
    return _update(task, owner=name)


def _tell(to: str, summary: str, text: str) -> Any:
    return _send(to, text, summary=summary)


def _agree(request: Request) -> Sequence[Any]:
    id = _REQUEST.findall(_text(request))[-1]
    message = {"type": "shutdown_response", "request_id": id, "approve": True}
    return [_send("team-lead", message)]


def _tasks(_: Request) -> Sequence[Any]:
    waits: dict[int, dict[str, Any]] = {2: {"blockedBy": ["1", "2"]}}
    made = [call("TaskCreate", subject=s, description=d, **waits.get(n, {})) for n, (s, d) in enumerate(TASKS)]
    return [call("TeamCreate", team_name=TEAM, description="mends the shop"), *made]


def _recruit(_: Request) -> Sequence[Any]:
    made = (("ada", ADA, "prices"), ("ben", BEN, "labels"))
    return [call("Agent", name=n, description=about, prompt=p, isolation="worktree") for n, p, about in made]


def _merge(request: Request) -> Sequence[Any]:
    merges = [_bash(f"git merge -q --no-ff --no-edit {b}") for b in branches(request)[:2]]
    return [*merges, _bash("python3 -m unittest -q")]


def _dismiss(_: Request) -> Sequence[Any]:
    return [_send(name, {"type": "shutdown_request"}) for name in ("ada", "ben")]


def _edit(file: str, change: tuple[str, str], tests: str) -> Callable[[Request], Sequence[Any]]:
    edit = call("Edit", file_path=file, old_string=change[0], new_string=change[1])
    return _always(edit, _bash(f"python3 -m unittest -q {tests}"))


def _commit(words: str) -> Callable[[Request], Sequence[Any]]:
    return _run(f"git commit -qam '{words}' && git branch --show-current")


def _hand_over(request: Request) -> Sequence[Any]:
    text = f"cheapest([]) is None now, on the branch {branches(request)[0]}."
    return [_tell("ben", "where to find cheapest()", text)]


def _advise(_: Request) -> Sequence[Any]:
    return [_done(2), _tell("ada", "label() takes cents", "label() takes cents: let cheapest() stay in cents, too.")]


def _bring_in(request: Request) -> Sequence[Any]:
    return [_bash(f"git merge -q --no-edit {branches(request)[1]}")]


def _write(_: Request) -> Sequence[Any]:
    return [
        call("Write", file_path="banner.py", content=BANNER),
        _bash("python3 -m unittest -q"),
        _bash("git add banner.py && git commit -qm 'A banner'"),
    ]


PARTS: dict[str, Sequence[StoryLine]] = {
    "lead": (
        StoryLine("I look at the tests first.", _run("python3 -m unittest -q")),
        StoryLine("Two faults that have nothing to do with each other, and a banner that needs both.", _tasks),
        StoryLine("Each fault gets a teammate, with a worktree of its own.", _recruit),
        StoryLine("They are at work. I need not wait for them: I hear of them when they are done."),
        StoryLine("All three are done. I merge both branches and run all tests.", _merge, Idle("ben")),
        StoryLine("The shop is whole, so nobody is needed any more.", _dismiss),
        StoryLine("", _run("git log --no-merges --topo-order --format=%s"), StoryLeft(("ada", "ben"))),
        StoryLine("Three commits of two teammates are merged, all tests pass, and both have shut down."),
    ),
    "ada": (
        StoryLine("I take #1.", _always(_mine(1, "ada"), _read("prices.py")), SaidInDemo("lead", 4)),
        StoryLine(
            "min() of nothing raises. It takes a default.",
            _edit("prices.py", PRICES, "test_prices"),
            Idle("ben"),
        ),
        StoryLine("ben needs cents, and cents they are.", _commit("cheapest() of an empty list is None")),
        StoryLine("", _always(_done(1))),
        StoryLine("", _hand_over, AskedInDemo("ben", 5)),
        StoryLine("#1 is done, on the branch {branch}."),
        StoryLine("", _agree),
    ),
    "ben": (
        StoryLine("I take #2.", _always(_mine(2, "ben"), _read("labels.py")), AskedInDemo("ada", 1)),
        StoryLine("str() drops a zero.", _edit("labels.py", LABELS, "test_labels")),
        StoryLine("", _commit("Prices with two digits")),
        StoryLine("ada should know how I count.", _advise),
        StoryLine("#2 is done, on the branch {branch}."),  # a kill comes before it
        StoryLine("What does #3 still need?", _run("python3 -m unittest -q test_banner"), Idle("ada")),
        StoryLine("First ada's work, then the file.", _bring_in),
        StoryLine("", _write),
        StoryLine("", _always(_done(3))),
        StoryLine("#3 is done, on the same branch."),
        StoryLine("", _agree, StoryLeft(("ada",))),
    ),
}
KILLED_AT = "ben", 4  # #2 is done; the message to ada is stored, but she has not read it
TRY = "python3 -c 'from prices import cheapest; print(cheapest([]))'"
ASKING = StoryLine("First I want to see it fail. No rule allows that command, so I must ask.", _run(TRY))
DEAF = (
    "A script plays the model here, and it has no line for that. With a model of your own, `teamwright` opens this "
    "same app in your repository."
)


def parts(*, live: bool) -> dict[str, Sequence[StoryLine]]:
    """If somebody can be asked, ada has a question; the story continues whatever the answer is."""
    first, *rest = PARTS["ada"]
    return {**PARTS, "ada": (first, ASKING, *rest)} if live else PARTS


def replies(messages: Sequence[Message]) -> int:
    """Number of the story's replies."""
    return sum(message.role == "assistant" and message.text != DEAF for message in messages)


def only_spoken_to(messages: Sequence[Message]) -> bool:
    """Whether somebody spoke to a resting agent, without anything of the story happening to it."""
    last = max((n for n, message in enumerate(messages) if message.role == "assistant"), default=-1)
    new = [block for message in messages[last + 1 :] for block in message.blocks]
    if any(isinstance(block, Text) and "<side-question>" in block.text for block in new):
        return True
    return last >= 0 and not messages[last].calls and not any(map(_of_story, new))


def _of_story(block: object) -> bool:
    """A result, or words of other agents; the person's own shell line is neither."""
    if not isinstance(block, Text):
        return isinstance(block, ToolResult)
    return block.text.startswith(ELEMENTS) and not block.text.startswith("<shell-input>")


def part_of(request: Request) -> str:
    first = _text(request)
    return "ada" if ADA in first else "ben" if BEN in first else "lead"


def tell(wait: Wait, *, live: bool = False) -> Callable[[Request], Awaitable[ScriptStep]]:
    """The whole story, for a scripted model."""
    told = parts(live=live)

    async def play(request: Request) -> ScriptStep:
        part = part_of(request)
        number = replies(request.messages)
        if only_spoken_to(request.messages) or number >= len(told[part]):
            return read_step(DEAF, ())
        line = told[part][number]
        await wait(part, number, line.cue)
        found = branches(request)
        words = line.words.format(branch=found[0] if found else "")
        return read_step([*([words] if words else ()), *(line.calls(request) if line.calls else ())], ())

    return play
