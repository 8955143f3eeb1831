"""The gate with a sandbox: what runs unasked inside, what stays outside, and that only a person lets a command out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from teamwright.core.data.extensions.hook import NOTHING, Fired
from teamwright.core.data.message import ToolCall
from teamwright.core.ids import AgentId, CallId
from teamwright.core.permissions.consent import MODES, Allow, Decision, Deny, Mode, Question
from teamwright.core.permissions.rules import Rules, parse_rules
from teamwright.core.ports import Desk
from teamwright.core.sandbox.fencing import Fencing
from teamwright.core.sandbox.rules import SandboxRules
from teamwright.runtime.permissions.call_facts import FactReader
from teamwright.runtime.permissions.gate import SessionGate
from teamwright.runtime.permissions.judgement import Standing
from teamwright.tools.catalog import CATALOG

ME = AgentId("a1")
AUTO = Fencing(SandboxRules(excluded=("docker *",)), auto_allow=True)
OUT = {"dangerouslyDisableSandbox": True}


class Room:
    """A project, a person who says yes, and a hook that may answer and change the arguments."""

    def __init__(self, root: Path) -> None:
        self.root, self.mode, self.rules = root, "default", Rules()
        self.fencing: Fencing | None = AUTO
        self.asked: list[Question] = []
        self.answers = True
        self.hook = NOTHING

    def use(self, **kinds: list[str]) -> None:
        self.rules = Rules(**{k: parse_rules(v, "user", str(self.root), "/nowhere")[0] for k, v in kinds.items()})

    def _standing(self, _: object) -> Standing:
        mode: Any = self.mode
        return Standing("main", mode, self.rules, Desk(self.root, (self.root,)), fencing=self.fencing)

    async def _put(self, question: Question) -> Decision:
        self.asked.append(question)
        return Allow()

    async def before(self, agent: AgentId, call: ToolCall) -> Fired:
        return NOTHING

    async def requested(self, agent: AgentId, call: ToolCall, args: Mapping[str, Any]) -> Fired:
        return self.hook

    def waits(self, question: Question) -> None:
        pass

    async def __call__(self, command: str, **more: Any) -> Decision:
        put = self._put if self.answers else None
        gate = SessionGate(standing=self._standing, facts=FactReader(CATALOG, self.root), put=put, points=self)
        args = msgspec.json.encode({"command": command, **more})
        return await gate.ask(ME, ToolCall(CallId("c1"), "Bash", msgspec.Raw(args)))


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path.resolve())


@pytest.mark.spec("V11")
@pytest.mark.parametrize("mode", MODES)
async def test_inside_a_command_runs_unasked_in_every_mode(room: Room, mode: Mode) -> None:
    room.mode = mode
    assert await room("sh run.sh && curl x | sh") == Allow(fence="unasked")
    assert room.asked == []


@pytest.mark.spec("V11")
async def test_without_auto_allow_it_asks_as_ever_and_runs_inside(room: Room) -> None:
    room.fencing = Fencing(SandboxRules())
    assert await room("sh run.sh") == Allow(fence="inside") and len(room.asked) == 1
    assert await room("ls") == Allow(fence="inside") and len(room.asked) == 1


@pytest.mark.spec("V11")
async def test_what_a_tier_cannot_hold_asks(room: Room) -> None:
    room.fencing = Fencing(SandboxRules(), auto_allow=True, unheld="landlock cannot hide keys")
    assert await room("sh run.sh") == Allow(fence="inside") and len(room.asked) == 1


@pytest.mark.spec("V12")
async def test_rules_and_the_home_come_first(room: Room) -> None:
    room.use(deny=["Bash(sh *)"], ask=["Bash(touch asked)"])
    room.answers, room.mode = False, "bypassPermissions"
    for command in ("sh run.sh", "true && sh run.sh", "touch asked", "rm -rf ~"):
        assert isinstance(await room(command), Deny), command
    assert await room("touch fine") == Allow(fence="unasked")


@pytest.mark.spec("V13")
async def test_an_excluded_command_runs_outside_and_is_judged_as_ever(room: Room) -> None:
    room.answers = False
    assert isinstance(await room("docker ps"), Deny)
    room.use(allow=["Bash(docker ps)"])
    assert await room("docker ps") == Allow(fence="outside")
    assert await room("docker ps; sh run.sh") == Allow(fence="unasked")  # all of it stays inside


@pytest.mark.spec("V14")
@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
async def test_only_a_person_lets_a_command_out(room: Room, mode: Mode) -> None:
    room.mode, room.hook = mode, Fired(decision="allow")
    room.use(allow=["Bash"])
    assert await room("ls", **OUT) == Allow(fence="leaving")
    (question,) = room.asked
    assert "outside of the sandbox" in question.reason and question.suggestions == question.wider == ()
    room.answers = False
    assert isinstance(await room("ls", **OUT), Deny)


@pytest.mark.spec("V14")
@pytest.mark.parametrize("mode", ["plan", "dontAsk"])
async def test_where_nobody_is_asked_nothing_gets_out(room: Room, mode: Mode) -> None:
    room.mode = mode
    assert isinstance(await room("ls", **OUT), Deny) and room.asked == []


@pytest.mark.spec("V14")
@pytest.mark.parametrize("wish", [False, None, 1, "true", [True], {}])
async def test_another_value_than_true_counts_as_absent(room: Room, wish: object) -> None:
    assert await room("ls", dangerouslyDisableSandbox=wish) == Allow(fence="unasked")


@pytest.mark.spec("V14")
async def test_settings_can_take_the_way_out_away(room: Room) -> None:
    room.fencing = Fencing(SandboxRules(), auto_allow=True, may_leave=False)
    assert await room("ls", **OUT) == Allow(fence="unasked") and room.asked == []


@pytest.mark.spec("V14")
async def test_a_hook_cannot_add_the_wish(room: Room) -> None:
    """Its output answers another question, and changes the call into one that would leave the sandbox."""
    room.fencing = Fencing(SandboxRules())
    changed = {"command": "sh run.sh", **OUT}
    room.hook = Fired(decision="allow", updated_input=changed)
    assert await room("sh run.sh") == Allow(changed, fence="inside") and room.asked == []


async def test_without_a_sandbox_nothing_changes(room: Room) -> None:
    room.fencing, room.answers = None, False
    assert await room("ls", **OUT) == Allow() and isinstance(await room("sh run.sh"), Deny)


@pytest.mark.spec("V14")
@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("make push", ("Bash(make push)",)),
        ("make push && git push origin 'my branch' 2>&1", ("Bash(make push)", "Bash(git push origin 'my branch')")),
        ("make push | tail -5", ("Bash(make push)", "Bash(tail -5)")),
        ("make $TARGET", ()),
        ("cd x && make push", ()),
        ("make push > out.txt", ()),
        ("make 'a*b'", ()),
        ("curl x | sh", ()),
        ("cat a.py | python3 -", ()),
        ("touch asked", ()),  # an ask rule would ask all the same
    ],
)
async def test_always_is_offered_where_it_would_answer(room: Room, command: str, rules: tuple[str, ...]) -> None:
    room.use(ask=["Bash(touch asked)"])
    assert await room(command, **OUT) == Allow(fence="leaving")
    assert room.asked[-1].outside == rules


@pytest.mark.spec("V14")
async def test_what_always_leaves_needs_no_further_yes_and_nothing_else_leaves(room: Room) -> None:
    room.fencing = Fencing(SandboxRules(excluded=("make push",)), auto_allow=True)
    room.use(allow=["Bash(make push)"])
    assert await room("make push", **OUT) == Allow(fence="outside") and room.asked == []
    assert await room("make push") == Allow(fence="outside") and room.asked == []
    assert await room("make push now") == Allow(fence="unasked")
    assert await room("make push now", **OUT) == Allow(fence="leaving") and len(room.asked) == 1
