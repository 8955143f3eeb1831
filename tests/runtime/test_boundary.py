"""The agent's boundary: whatever happens inside a turn becomes one end, with a history that can be continued."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from live import LIMIT, Live, living, results, transcript, written

from conftest import Walker
from teamwright import tool
from teamwright.core.data.conversation.history import NOT_RUN, STOPPED, fold
from teamwright.core.data.event import Answered, Asked, Replied, Streamed, ToolEnded, TurnEnded
from teamwright.core.data.message import Request, TextDelta, ToolSpec
from teamwright.core.data.op import Answer, Interrupt
from teamwright.core.errors import StoreError, UsageError
from teamwright.core.permissions.consent import Allow, Question
from teamwright.core.ports import Outcome
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.resume import Origin
from teamwright.store.files import transcripts

pytestmark = pytest.mark.anyio


def check_requests(model: ScriptedModel) -> None:
    """Every request is one that a provider accepts."""
    for request in model.requests:
        owed: tuple[str, ...] = ()
        for message in request.messages:
            assert message.blocks
            assert tuple(b.call_id for b in message.blocks if hasattr(b, "call_id")) == owed
            owed = tuple(c.id for c in message.calls)
        assert not owed


class Buggy:
    spec = ToolSpec("Buggy", "Has a bug.", {"type": "object", "properties": {}})

    async def call(self, args, ctx) -> Outcome:
        raise RuntimeError("a bug of ours")


@pytest.mark.spec("A1")
async def test_a_bug_in_a_tool_ends_the_turn_once_and_the_next_one_works(walker: Walker) -> None:
    script = [[call("Buggy"), call("Glob", pattern="*")], "well again"]
    walk = await walker.walk(script, ["one", "two"], own_tools=[Buggy()], mode="bypassPermissions")
    assert [end.reason for end in walk.ends] == ["failed", "done"] and len(walk.of(TurnEnded)) == 2
    assert "RuntimeError('a bug of ours')" in walk.ends[0].error
    assert [is_error for _, is_error in walk.results] == [True, True]  # each call has its one result
    check_requests(walk.model)
    logs = "".join(f.read_text() for f in (walker.home / ".teamwright/logs").iterdir())
    assert "Traceback" in logs and "a bug of ours" in logs


async def test_a_bug_in_one_of_several_reads_ends_the_turn_once(walker: Walker) -> None:
    class BuggyRead(Buggy):
        spec = ToolSpec("Buggy", "Has a bug.", {"type": "object", "properties": {}}, parallel=True)

    reads = [call("Glob", pattern="*"), call("Buggy"), call("Buggy")]
    walk = await walker.walk([reads, "well"], ["one", "two"], own_tools=[BuggyRead()], mode="bypassPermissions")
    assert [end.reason for end in walk.ends] == ["failed", "done"] and "a bug of ours" in walk.ends[0].error
    assert len(walk.results) == 3
    check_requests(walk.model)


class Disk:
    """A disk that can be full, for this process alone: a limit on file sizes."""

    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, path: Path) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, self.before[1]))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.free()


@pytest.mark.spec("A1", "A2")
async def test_a_full_disk_ends_the_turn_once_and_it_goes_on_when_there_is_room(walker: Walker, disk: Disk) -> None:
    @tool(parallel=True)
    def fill() -> None:
        """Fill the disk."""
        disk.fill(transcript(walker))

    script = [[call("fill"), call("Glob", pattern="*")], "there is room again"]
    async with living(walker, script, own_tools=[fill]) as live:
        await live.say("one")
        end = await live.until(TurnEnded)
        assert end.reason == "failed" and str(transcript(walker)) in end.error
        with pytest.raises(StoreError):
            await live.say("never stored")
        disk.free()
        await live.say("two")
        assert (await live.until(TurnEnded)).text == "there is room again"
    assert live.ends == ["failed", "done"]
    check_requests(live.model)
    assert "never stored" not in [m.text for m in live.model.requests[-1].messages]
    kept = fold(line.event for _, line in transcripts.read(transcript(walker)))
    assert not kept.open_calls and kept.messages[-1].text == "there is room again"


@pytest.mark.spec("A1", "A3")
async def test_an_interrupt_in_mid_tool_gives_one_end_and_each_call_its_result(walker: Walker) -> None:
    calls = [call("Bash", command="echo $$ > pid; sleep 100"), call("Bash", command="touch never")]
    async with living(walker, [calls, "went on"]) as live:
        await live.say("one")
        pid = int(await written(walker.project / "pid"))
        await live.session.submit(Interrupt())
        assert (await live.until(TurnEnded)).reason == "interrupted"
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        await live.say("two")
        assert (await live.until(TurnEnded)).text == "went on"
    assert live.ends == ["interrupted", "done"] and not (walker.project / "never").exists()
    last = live.model.requests[-1]
    assert results(last.messages[2]) == [(STOPPED, True), (NOT_RUN, True)]
    assert last.messages[3].text == "[This turn was interrupted by the person.]" and last.messages[4].text == "two"
    check_requests(live.model)


@pytest.mark.spec("A8")
async def test_an_interrupt_in_mid_reply_keeps_nothing_of_it(walker: Walker) -> None:
    slow = {"blocks": ["one two three four five", call("Bash", command="touch never")], "pace": 0.5}
    script = ScriptedModel(lambda request: slow if request.messages[-1].text == "one" else "second")
    async with living(walker, script) as live:
        await live.say("one")
        await live.until(Streamed)
        await live.session.submit(Interrupt())
        assert (await live.until(TurnEnded)).reason == "interrupted"
        await live.say("two")
        assert (await live.until(TurnEnded)).text == "second"
    assert len(live.of(Replied)) == 1 and not (walker.project / "never").exists()
    assert [m.role for m in live.model.requests[-1].messages] == ["user"] * 3
    assert not any("one two" in m.text for m in live.model.requests[-1].messages)


@pytest.mark.spec("M10")
async def test_an_interrupt_withdraws_the_question_that_waits(walker: Walker) -> None:
    async with living(walker, [call("Bash", command="touch f"), "next"], mode="default", can_ask=True) as live:
        await live.say("one")
        asked: Question = (await live.until(Asked)).question
        assert [q.id for q in live.session.snapshot().questions] == [asked.id]
        await live.session.submit(Interrupt())
        await live.until(TurnEnded)
        assert live.of(Answered) == [Answered(asked.id, None)] and not live.session.snapshot().questions
        with pytest.raises(UsageError, match="no question"):
            await live.session.submit(Answer(asked.id, Allow()))
    assert live.ends == ["interrupted"] and not (walker.project / "f").exists()


async def test_an_interrupt_without_a_turn_changes_nothing(walker: Walker) -> None:
    async with living(walker, lambda _: "fine") as live:
        await live.session.submit(Interrupt())
        await live.say("one")
        await live.until(TurnEnded)
        await live.session.idle()
        await live.session.submit(Interrupt())
        await live.say("two")
        await live.until(TurnEnded)
    assert live.ends == ["done", "done"]


@pytest.mark.spec("A1", "O2")
async def test_closing_in_mid_tool_is_an_end_and_the_session_resumes(walker: Walker) -> None:
    async with living(walker, [call("Bash", command="echo $$ > pid; sleep 100")]) as live:
        await live.say("one")
        pid = int(await written(walker.project / "pid"))
    assert live.ends == ["interrupted"] and len(live.of(ToolEnded)) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    again = await walker.walk(lambda _: "resumed", ["two"], origin=Origin(resume=live.session.id))
    (request,) = again.model.requests
    assert again.ends[0].text == "resumed" and results(request.messages[2]) == [(STOPPED, True)]


@pytest.mark.spec("Q1", "Q2")
async def test_a_prompt_in_mid_turn_joins_it_and_has_no_end_of_its_own(walker: Walker) -> None:
    here = walker.project
    wait = f"echo started > {here}/started; until [ -e {here}/go ]; do sleep 0.02; done"
    async with living(walker, [call("Bash", command=wait), "both done"]) as live:
        await live.say("one")
        await written(here / "started")
        await live.say("and this too")
        (here / "go").touch()
        await live.until(TurnEnded)
        with anyio.fail_after(LIMIT):
            await live.session.idle()
    assert live.ends == ["done"] and live.model.requests[-1].messages[-1].text == "and this too"


@pytest.mark.spec("O1")
async def test_a_watch_from_the_beginning_sees_what_was_said_before_it(walker: Walker) -> None:
    first = await walker.walk(lambda _: "one", ["first"])
    async with living(walker, lambda _: "two", origin=Origin(resume=first.session.id)) as live:
        await live.say("second")
        await live.until(TurnEnded)
        everything = live.session.watch({live.session.main.id: 0})
    numbers = [record.n async for record in everything if record.n]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [r.n for r in live.records if r.n] == numbers[-len([r for r in live.records if r.n]) :]


async def follow(live: Live, words: list[str]) -> None:
    async for record in live.session.watch():
        if isinstance(record.event, Streamed) and isinstance(record.event.delta, TextDelta):
            words.append(record.event.delta.text)


async def test_two_watchers_see_the_same_words(walker: Walker) -> None:
    def play(_: Request) -> str:
        return "a few words of text"

    words: list[str] = []
    async with anyio.create_task_group() as group, living(walker, play) as live:
        group.start_soon(follow, live, words)
        await anyio.wait_all_tasks_blocked()
        await live.say("go")
        await live.until(TurnEnded)
    assert (
        "".join(words)
        == "a few words of text"
        == "".join(
            r.event.delta.text for r in live.records if isinstance(r.event, Streamed) and hasattr(r.event.delta, "text")
        )
    )
