"""The gate: from a call's arguments to a decision, with real files, links and an answering person."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from teamwright.core.data.message import ToolCall
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId, CallId
from teamwright.core.permissions.consent import Allow, Decision, Deny, Mode, Question
from teamwright.core.permissions.rules import Rules, parse_rules
from teamwright.core.ports import Desk
from teamwright.host.files.read_write import seen_of
from teamwright.runtime.permissions.call_facts import FactReader
from teamwright.runtime.permissions.gate import SessionGate
from teamwright.runtime.permissions.judgement import Standing
from teamwright.tools.catalog import CATALOG

ME = AgentId("a1")


class Room:
    """A project with a gate; `answer` is the person's answer, and `asked` the questions put to them."""

    def __init__(self, top: Path) -> None:
        self.root, self.outside, self.home = top / "project", top / "outside", top / "home"
        for path in (self.root / "sub", self.root / "keys", self.outside, self.home / ".teamwright/out"):
            path.mkdir(parents=True)
        (self.root / "link").symlink_to(self.outside)
        (self.root / "keys/k").write_text("k")
        (self.root / "alias").symlink_to(self.root / "keys/k")
        self.desk = Desk(self.root, (self.root,))
        self.mode: Mode = "default"
        self.name = "main"
        self.rules = Rules()
        self.asked: list[Question] = []
        self.answer: Callable[[Question], Decision] | None = None

    def use(self, **kinds: list[str]) -> None:
        self.rules = Rules(**{k: parse_rules(v, "user", str(self.root), str(self.home))[0] for k, v in kinds.items()})

    async def _put(self, question: Question) -> Decision:
        self.asked.append(question)
        assert self.answer
        return self.answer(question)

    def _standing(self, _: object) -> Standing:
        own = str(self.home / ".teamwright")
        return Standing(self.name, self.mode, self.rules, self.desk, readable=(f"{own}/out",), protected=(own,))

    async def __call__(self, tool: str, **args: Any) -> Decision:
        put: Callable[[Question], Awaitable[Decision]] | None = self._put if self.answer else None
        gate = SessionGate(standing=self._standing, facts=FactReader(CATALOG, self.home), put=put)
        return await gate.ask(ME, ToolCall(CallId("c1"), tool, msgspec.Raw(msgspec.json.encode(args))))


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path.resolve())


@pytest.mark.spec("M8")
async def test_an_allow_carries_the_path_that_was_judged(room: Room) -> None:
    assert await room("Read", file_path="sub/../keys/k") == Allow(paths={"sub/../keys/k": str(room.root / "keys/k")})
    room.mode = "acceptEdits"
    assert await room("Write", file_path="new.txt", content="") == Allow(paths={"new.txt": str(room.root / "new.txt")})
    assert await room("Grep", pattern="x") == Allow(paths={str(room.root): str(room.root)})


@pytest.mark.spec("M8")
async def test_ways_out_are_resolved_before_they_are_judged(room: Room) -> None:
    room.mode = "acceptEdits"
    for path in ("../x", "link/x", str(room.outside / "x"), "sub/../../x", f"{room.root}-evil/x", "~/x"):
        assert isinstance(await room("Write", file_path=path, content=""), Deny), path
        assert isinstance(await room("Read", file_path=path), Deny), path
        assert isinstance(await room("Glob", pattern="*", path=path), Deny), path
    for pattern in ("../*", "/etc/*", "sub/*/../../../x", "~/*"):
        assert isinstance(await room("Glob", pattern=pattern), Deny), pattern
    assert isinstance(await room("Glob", pattern="**/*.py"), Allow)


@pytest.mark.spec("M3", "M8")
async def test_a_denied_path_is_denied_by_any_name(room: Room) -> None:
    room.use(deny=["Read(./keys/**)"])
    room.mode = "bypassPermissions"
    for path in ("keys/k", "alias", "sub/../keys/k", str(room.root / "alias")):
        assert isinstance(await room("Read", file_path=path), Deny)
    assert isinstance(await room("Read", file_path="sub/x"), Allow)
    assert isinstance(await room("Edit", file_path="alias", old_string="a", new_string="b"), Deny)


@pytest.mark.spec("M10")
async def test_with_nobody_to_ask_a_question_is_a_denial_that_says_so(room: Room) -> None:
    found = await room("Bash", command="sh run.sh")
    assert isinstance(found, Deny) and not found.interrupt
    assert (
        found.reason.startswith("Bash was not run: no allow rule covers `sh run.sh`.")
        and "nobody is attached" in found.reason
    )


@pytest.mark.spec("M10")
async def test_a_refusal_names_the_agent_unless_it_is_the_main_one(room: Room) -> None:
    room.name = "scout"
    found = await room("Write", file_path="x", content="")
    assert isinstance(found, Deny) and found.reason.startswith("Write was not run for the agent scout: ")


@pytest.mark.spec("M2")
async def test_plan_mode_says_that_it_is_plan_mode(room: Room) -> None:
    room.mode = "plan"
    room.answer = lambda _: Allow()
    for tool, args in (("Write", {"file_path": "x", "content": ""}), ("Bash", {"command": "make"}), ("mcp__a__b", {})):
        found = await room(tool, **args)
        assert isinstance(found, Deny) and "plan mode" in found.reason
    assert isinstance(await room("Bash", command="git status"), Allow) and not room.asked


@pytest.mark.spec("M5")
async def test_the_question_says_what_and_why_and_the_answer_counts(room: Room) -> None:
    room.answer = lambda _: Allow()
    assert await room("Write", file_path="x", content="c") == Allow(paths={"x": str(room.root / "x")})
    (question,) = room.asked
    assert (question.tool, question.args, question.agent, question.agent_name, question.call_id) == (
        "Write",
        {"file_path": "x", "content": "c"},
        ME,
        "main",
        "c1",
    )
    assert question.blocked_path == str(room.root / "x") and question.suggestions and question.reason.endswith(".")
    room.answer = lambda _: Deny("not today", interrupt=True)
    assert await room("Bash", command="make") == Deny("not today", interrupt=True)


@pytest.mark.spec("M3", "M5")
async def test_changed_arguments_are_judged_for_what_is_denied_and_their_paths_resolved_again(room: Room) -> None:
    room.use(deny=["Edit(keys/**)", "Bash(sh *)"])
    room.answer = lambda _: Allow({"file_path": "alias", "content": ""})
    assert isinstance(await room("Write", file_path="x", content=""), Deny)
    room.answer = lambda _: Allow({"file_path": "../y", "content": ""})
    assert await room("Write", file_path="x", content="") == Allow(
        {"file_path": "../y", "content": ""}, {"../y": str(room.root.parent / "y")}
    )
    room.answer = lambda _: Allow({"command": "env sh run.sh"})
    assert isinstance(await room("Bash", command="make"), Deny)
    room.answer = lambda _: Allow({"command": "make other"})
    assert await room("Bash", command="make") == Allow({"command": "make other"})


@pytest.mark.spec("M8")
async def test_a_link_that_moves_while_the_question_waits_is_seen(room: Room) -> None:
    room.use(deny=["Edit(keys/**)"])

    def swap(_: Question) -> Decision:
        (room.root / "moving").unlink()
        (room.root / "moving").symlink_to(room.root / "keys")
        return Allow()

    (room.root / "moving").symlink_to(room.root / "sub")
    room.answer = swap
    assert isinstance(await room("Write", file_path="moving/x", content=""), Deny)


@pytest.mark.spec("M3")
async def test_what_a_rule_decides_is_never_asked(room: Room) -> None:
    room.use(deny=["Bash(sh run.sh)"], allow=["Bash(sh other.sh)"])
    room.answer = lambda _: Allow()
    assert (
        isinstance(await room("Bash", command="sh run.sh"), Deny)
        and await room("Bash", command="sh other.sh") == Allow()
    )
    assert not room.asked


@pytest.mark.spec("A6")
async def test_removing_a_home_is_refused_whoever_says_yes(room: Room) -> None:
    room.mode = "bypassPermissions"
    assert isinstance(await room("Bash", command="rm -rf ~"), Deny)
    room.mode, room.answer = "default", lambda _: Allow({"command": "rm -rf $HOME"})
    assert isinstance(await room("Bash", command="make"), Deny)


@pytest.mark.spec("A6", "B10")
async def test_our_own_state_is_protected_but_outputs_may_be_read(room: Room) -> None:
    room.use(allow=["Write", "Edit(**)"])
    state = room.home / ".teamwright"
    assert isinstance(await room("Write", file_path=str(state / "settings.json"), content=""), Deny)
    assert isinstance(await room("Read", file_path=str(state / "out/o.txt")), Allow)
    assert isinstance(await room("Read", file_path=str(state / "state.db")), Deny)


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("tool", "args"),
    [("Read", {}), ("Read", {"file_path": 5}), ("Bash", {"command": ["ls"]}), ("WebFetch", {"url": None}),
        ("WebFetch", {"url": "http://["}), ("Glob", {"path": 1})],
)  # fmt: skip
async def test_malformed_arguments_are_left_to_the_tool(room: Room, tool: str, args: dict[str, Any]) -> None:
    assert await room(tool, **args) == Allow()


async def test_a_path_that_cannot_be_one_is_an_error_for_the_model(room: Room) -> None:
    with pytest.raises(ToolError):
        await room("Read", file_path="a\0b")


SAME_HOST = [
    "https://ｅｖｉｌ.invalid/", "https://evil。invalid/", "https://EVIL.invalid./x", "https://a.evil.invalid:444/",
    "https://ℰvil.invalid", "http://me@evil.invalid/", "HTTPS://evil.invalid#@good.com/", "http://bu\u0308cher.de/",
    "http://xn--bcher-kva.de", "http://BÜCHER.de./", "http://0x5db8d822/", "http://93.184.55330/",
    "http://[::ffff:93.184.216.34]/", "http://straße.de/", "http://strasse.de",
]  # fmt: skip


@pytest.mark.spec("M3")
@pytest.mark.parametrize("url", SAME_HOST)
async def test_a_host_is_judged_as_it_is_connected_to(room: Room, url: str) -> None:
    denied = ("evil.invalid", "bücher.de", "93.184.216.34", "straße.de")
    room.use(allow=["WebFetch"], deny=[f"WebFetch(domain:{name})" for name in denied])
    assert isinstance(await room("WebFetch", url=url, prompt="x"), Deny)
    assert isinstance(await room("WebFetch", url="https://good.com/?evil.invalid", prompt="x"), Allow)


@pytest.mark.spec("M3")
async def test_a_yes_to_a_domain_is_not_one_to_its_look_alike(room: Room) -> None:
    room.use(allow=["WebFetch(domain:straße.de)"])
    assert isinstance(await room("WebFetch", url="https://straße.de", prompt="x"), Allow)
    assert isinstance(await room("WebFetch", url="https://strasse.de", prompt="x"), Deny)


@pytest.mark.spec("M8")
@pytest.mark.parametrize(("tool", "name"), [("Read", "file_path"), ("Write", "file_path"), ("Grep", "path")])
async def test_a_path_that_no_system_takes_is_words_for_the_model(room: Room, tool: str, name: str) -> None:
    for path in ("n" * 300, "d/" * 3_000, "~" * 5_000):
        with pytest.raises(ToolError):
            await room(tool, **{name: path, "content": "", "pattern": "x"})


@pytest.mark.spec("M1", "M2")
async def test_agents_the_web_and_other_tools(room: Room) -> None:
    room.use(deny=["Agent(red)"], allow=["WebFetch(domain:example.com)"])
    assert isinstance(await room("Agent", subagent_type="Red", prompt="x"), Deny)
    assert isinstance(await room("Agent", prompt="x"), Allow) and isinstance(await room("TaskList"), Allow)
    assert isinstance(await room("WebFetch", url="https://example.com/x", prompt="y"), Allow)
    for url in ("https://evil.org/?example.com", "https://example.com@evil.org/", "https://example.com.evil.org"):
        assert isinstance(await room("WebFetch", url=url, prompt="y"), Deny), url
    assert isinstance(await room("mcp__a__b"), Deny)


def test_the_parser_is_not_loaded_before_the_first_command() -> None:
    import subprocess
    import sys

    code = "import sys, teamwright.runtime.permissions.gate; sys.exit('tree_sitter' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.spec("M11")
async def test_a_refusal_ends_with_what_is_allowed(room: Room) -> None:
    room.use(allow=[f"Bash(make t{n} *)" for n in range(11)] + ["Edit(src/**)"])
    said = await room("Bash", command="pytest -q")
    assert isinstance(said, Deny)
    assert said.reason.endswith(f"Allowed: commands that only read; {', '.join(f'make t{n} *' for n in range(10))}.")
    said = await room("Write", file_path="x", content="")
    assert isinstance(said, Deny) and said.reason.endswith("Allowed: src/**.")
    room.mode = "plan"
    said = await room("Bash", command="pytest -q")
    assert isinstance(said, Deny) and said.reason.endswith("Allowed: commands that only read.")
    room.mode = "acceptEdits"
    said = await room("Bash", command="pytest -q")
    assert isinstance(said, Deny) and "; mkdir, touch, mv, cp, rm, rmdir, ln, git mv, git rm and sed -i" in said.reason


@pytest.mark.spec("M11")
async def test_a_refused_path_has_a_copy_in_the_worktree(room: Room) -> None:
    tree = room.root / ".teamwright/worktrees/ada"
    (tree / "keys").mkdir(parents=True)
    (tree / "keys/k").write_text("k")
    room.desk = Desk(tree, (tree,))
    for call in (
        {"tool": "Read", "file_path": str(room.root / "keys/k")},
        {"tool": "Bash", "command": f"cat {room.root}/keys/k"},
    ):
        said = await room(**call)
        assert isinstance(said, Deny) and said.reason.endswith(f"Your copy of it: {tree}/keys/k")
    said = await room("Read", file_path=str(room.outside))
    assert isinstance(said, Deny) and "Your copy" not in said.reason


def known(room: Room, name: str, text: str) -> Path:
    """A file that the agent has read."""
    path = room.root / name
    path.write_text(text)
    room.desk.seen[str(path)] = seen_of(path, path.stat())
    return path


@pytest.mark.spec("M5")
async def test_a_question_about_a_change_shows_it_in_the_file_as_it_is(room: Room) -> None:
    room.answer = lambda _: Deny("no")
    known(room, "a.py", "".join(f"line {n}\n" for n in range(1, 21)))
    await room("Edit", file_path="a.py", old_string="line 10\n", new_string="ten\n")
    await room("Write", file_path="a.py", content="all\n")
    await room("Write", file_path="new.py", content="first\nsecond\n")
    edit, write, new = (question.patch for question in room.asked)
    assert [(hunk.old_start, hunk.lines[3:5]) for hunk in edit] == [(7, ("-line 10", "+ten"))]
    assert sum(line.startswith("-") for hunk in write for line in hunk.lines) == 20
    assert [hunk.lines for hunk in new] == [("+first", "+second")]


@pytest.mark.spec("M5")
@pytest.mark.parametrize(("args", "words"), [
    ({"old_string": "absent", "new_string": "x"}, "was not found"),
    ({"old_string": "line", "new_string": "x"}, "20 times"),
    ({"old_string": "line 1\n", "new_string": "line 1\n"}, "equal"),
])  # fmt: skip
async def test_a_change_that_cannot_work_is_refused_before_anybody_is_asked(
    room: Room, args: dict[str, str], words: str
) -> None:
    room.answer = lambda _: Allow()
    known(room, "a.py", "".join(f"line {n}\n" for n in range(1, 21)))
    with pytest.raises(ToolError, match=words):
        await room("Edit", file_path="a.py", **args)
    (room.root / "unread.py").write_text("x")
    with pytest.raises(ToolError, match="has not been read"):
        await room("Write", file_path="unread.py", content="y")
    assert not room.asked


@pytest.mark.spec("W1", "M8")
@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
async def test_an_agent_in_a_worktree_does_not_change_the_tree_around_it(room: Room, mode: Mode) -> None:
    tree = room.root / ".teamwright/worktrees/ada"
    tree.mkdir(parents=True)
    room.desk, room.mode = Desk(tree, (tree,)), mode
    room.use(allow=["Edit", "Write"])
    sibling = tree.parent / "ben/x"
    for path in ("../../../keys/k", str(room.root / "keys/k"), "../../../new", str(sibling), f"{tree}-evil/x"):
        found = await room("Write", file_path=path, content="")
        assert isinstance(found, Deny) and "from which your worktree was made" in found.reason, path
        assert isinstance(await room("Edit", file_path=path, old_string="a", new_string="b"), Deny), path
    assert isinstance(await room("Write", file_path="own.txt", content=""), Allow)
    room.desk = Desk(tree, (tree, room.root / "keys"))  # a directory that a person added is the agent's own
    assert isinstance(await room("Write", file_path=str(room.root / "keys/k"), content=""), Allow)


@pytest.mark.spec("M11")
async def test_a_rule_beside_a_deny_covers_what_cannot_show_the_file(room: Room) -> None:
    room.use(deny=["Read(./keys/k)"], allow=["Bash(grep:*)"])
    assert isinstance(await room("Bash", command="grep -r a sub"), Allow)
    refused = await room("Bash", command="grep -r a .")
    assert isinstance(refused, Deny) and "--exclude=k" in refused.reason
    assert isinstance(await room("Bash", command="grep -r --exclude=k a ."), Allow)


@pytest.mark.spec("M11")
async def test_a_rule_that_came_while_the_tree_was_looked_at_counts(room: Room) -> None:
    """The call is judged by the rules of that moment."""
    before, looks = room._standing, list[int]()

    def standing(agent: object) -> Standing:
        looks.append(1)
        if len(looks) == 2:
            room.use(deny=["Read(./keys/k)"])
        return before(agent)

    room._standing = standing
    assert isinstance(await room("Bash", command="grep -r a ."), Deny)
