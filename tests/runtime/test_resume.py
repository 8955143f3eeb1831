"""Where a session comes from: resumed, continued or copied; and what must not be resumed."""

import json
from pathlib import Path

import pytest
from live import living, results, transcript

from conftest import Walker
from teamwright.app import open_session
from teamwright.core.data.conversation.history import NEVER_BEGUN, UNKNOWN, fold
from teamwright.core.data.event import AgentStarted, LettersTaken, Rendered, Replied, Resumed, ToolStarted, TurnEnded
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Text
from teamwright.core.errors import SessionBusy, SessionMissing, StoreError, TeamwrightError, UsageError
from teamwright.core.ids import AgentId, new_letter_id, new_session_id
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin
from teamwright.store.files import transcripts
from teamwright.store.tables.state import StateStore

pytestmark = pytest.mark.anyio


def events(path: Path) -> list:
    return [line.event for _, line in transcripts.read(path)]


def cut_after(path: Path, kind: type, *, torn: bytes = b"") -> None:
    """Cut as a kill would: nothing after the first event of that kind, and perhaps half a line."""
    n = next(n for n, line in transcripts.read(path) if isinstance(line.event, kind))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:n]) + torn)


@pytest.mark.spec("A2", "O2")
async def test_a_torn_line_is_cut_reported_and_recorded(walker: Walker) -> None:
    first = await walker.walk(["one"])
    whole = transcript(walker).read_bytes()
    transcript(walker).write_bytes(whole + b'{"at":1,"event":{"type":"repl')
    again = await walker.walk(lambda _: "two", ["more"], origin=Origin(resume=first.session.id))
    assert any("half-written (29 bytes)" in note for note in again.session.notes)
    assert transcript(walker).read_bytes().startswith(whole)
    assert [e.torn for e in events(transcript(walker)) if isinstance(e, Resumed)] == [29]
    assert again.ends[0].text == "two"


@pytest.mark.spec("A2")
@pytest.mark.parametrize(("cut", "words"), [(ToolStarted, UNKNOWN), (Replied, NEVER_BEGUN)])
async def test_a_call_in_flight_is_answered_by_what_is_true_of_it(walker: Walker, cut: type, words: str) -> None:
    first = await walker.walk([call("Bash", command="touch ran"), "one"], mode="bypassPermissions")
    cut_after(transcript(walker), cut)
    (walker.project / "ran").unlink()
    again = await walker.walk(
        lambda _: "two", ["more"], origin=Origin(resume=first.session.id), mode="bypassPermissions"
    )
    (request,) = again.model.requests
    assert results(request.messages[2]) == [(words, True)] and request.messages[3].text == "more"
    assert not (walker.project / "ran").exists()  # and it is not run again


@pytest.mark.spec("Q5")
async def test_a_prompt_that_was_stored_but_not_read_is_read_after_resume(walker: Walker) -> None:
    first = await walker.walk(["one"])
    state = await StateStore.open(walker.home / ".teamwright/state.db")
    id = AgentId(first.session.id)
    await state.post(Letter(new_letter_id(), id, PERSON, Prompt((Text("typed before the kill"),))))
    await state.close()
    async with living(walker, lambda _: "answered", origin=Origin(resume=first.session.id)) as live:
        assert (await live.until(TurnEnded)).text == "answered"
    assert live.model.requests[-1].messages[-1].text == "typed before the kill"


@pytest.mark.spec("Q5", "X2")
async def test_a_prompt_that_the_transcript_has_is_not_read_again(walker: Walker) -> None:
    """Killed after the line in the transcript and before the mark in the store: the line counts."""
    first = await walker.walk(["one"], mode="bypassPermissions")
    cut_after(transcript(walker), LettersTaken)
    (taken,) = [e for e in events(transcript(walker)) if isinstance(e, LettersTaken)]
    async with living(walker, lambda _: "x", origin=Origin(resume=first.session.id)) as live:
        await live.session.main.inbox.post(
            Letter(taken.letters[0], live.session.main.id, PERSON, Prompt((Text("go"),)))
        )
        await live.say("more")
        await live.until(TurnEnded)
    assert [m.text for m in live.model.requests[-1].messages] == ["go", "more"]


async def test_a_session_killed_before_it_began_says_so_and_its_lock_is_free(walker: Walker) -> None:
    first = await walker.walk(["one"])
    transcript(walker).write_bytes(b'{"at":1,"ev')
    for _ in range(2):
        with pytest.raises(SessionMissing, match="nothing to resume"):
            await open_session(walker.options(["x"], origin=Origin(resume=first.session.id)))


@pytest.mark.spec("O2")
async def test_a_fork_goes_on_under_its_own_id_and_leaves_the_original_as_it_is(walker: Walker) -> None:
    first = await walker.walk([call("Glob", pattern="*"), "one"])
    original = transcript(walker)
    before = original.read_bytes()
    fork = await walker.walk(lambda _: "two", ["more"], origin=Origin(resume=first.session.id, fork=True))
    assert fork.session.id != first.session.id and original.read_bytes() == before
    (request,) = fork.model.requests
    assert request.messages[:3] == first.model.requests[-1].messages
    assert request.system == first.model.requests[0].system and request.messages[-1].text == "more"
    (copy,) = [f for f in original.parent.glob("*.jsonl") if f != original]
    starts = [e for e in events(copy) if isinstance(e, AgentStarted)]
    assert [e.session for e in starts] == [fork.session.id]
    again = await walker.walk(lambda _: "three", ["on"], origin=Origin(resume=fork.session.id))
    assert [m.text for m in again.model.requests[0].messages][-3:] == ["more", "two", "on"]


@pytest.mark.spec("A2")
async def test_a_fork_of_a_broken_off_session_closes_its_calls(walker: Walker) -> None:
    first = await walker.walk([call("Bash", command="echo"), "one"], mode="bypassPermissions")
    cut_after(transcript(walker), ToolStarted)
    fork = await walker.walk(lambda _: "two", origin=Origin(resume=first.session.id, fork=True))
    assert results(fork.model.requests[0].messages[2]) == [(UNKNOWN, True)]
    assert fold(events(transcript_of(walker, fork.session.id))).open_calls == []


def transcript_of(walker: Walker, id: str) -> Path:
    (file,) = (walker.home / ".teamwright/projects").glob(f"*/{id}.jsonl")
    return file


@pytest.mark.spec("O2")
async def test_one_session_runs_in_one_place_only(walker: Walker) -> None:
    async with living(walker, lambda _: "one") as live:
        await live.say("go")
        await live.until(TurnEnded)
        size = transcript(walker).stat().st_size
        with pytest.raises(SessionBusy, match="running in another process"):
            await open_session(walker.options(["x"], origin=Origin(resume=live.session.id)))
        assert transcript(walker).stat().st_size == size  # the loser wrote nothing
        fork = await walker.walk(lambda _: "two", origin=Origin(resume=live.session.id, fork=True))
        assert fork.ends[0].text == "two"
    again = await walker.walk(lambda _: "three", origin=Origin(resume=live.session.id))
    assert again.ends[0].text == "three"


async def test_the_last_session_of_a_directory_is_the_one_used_last(walker: Walker) -> None:
    one = await walker.walk(lambda _: "1")
    two = await walker.walk(lambda _: "2")
    assert (await walker.walk(lambda _: "x", origin=Origin(last=True))).session.id == two.session.id
    await walker.walk(lambda _: "x", origin=Origin(resume=one.session.id))
    assert (await walker.walk(lambda _: "x", origin=Origin(last=True))).session.id == one.session.id


@pytest.mark.parametrize(
    ("origin", "error", "words"),
    [
        (Origin(resume="nonsense"), SessionMissing, "no session nonsense"),
        (Origin(resume="../../etc/passwd"), SessionMissing, "no session"),
        (Origin(resume=new_session_id()), SessionMissing, "sessions --all"),
        (Origin(last=True), SessionMissing, "no session to continue"),
        (Origin(id="me"), UsageError, "not a UUID"),
    ],
)
async def test_what_cannot_be_opened_is_one_sentence(
    walker: Walker, origin: Origin, error: type[TeamwrightError], words: str
) -> None:
    with pytest.raises(error, match=words):
        await open_session(walker.options(["x"], origin=origin))
    assert not (walker.home / ".teamwright/projects").exists()


async def test_an_id_names_a_new_session_only(walker: Walker) -> None:
    id = new_session_id()
    walk = await walker.walk(lambda _: "one", origin=Origin(id=id))
    assert walk.session.id == id
    with pytest.raises(UsageError, match="already"):
        await open_session(walker.options(["x"], origin=Origin(id=id)))
    with pytest.raises(UsageError, match="--fork-session"):
        await open_session(walker.options(["x"], origin=Origin(resume=id, id=new_session_id())))
    other = new_session_id()
    fork = await walker.walk(lambda _: "two", origin=Origin(resume=id, fork=True, id=other.upper()))
    assert fork.session.id == other


@pytest.mark.spec("A11")
async def test_the_prompt_is_rendered_anew_only_when_something_changed(walker: Walker) -> None:
    first = await walker.walk(lambda _: "one")
    (walker.project / "AGENTS.md").write_text("New instructions.")
    same = await walker.walk(lambda _: "two", origin=Origin(resume=first.session.id))
    assert same.model.requests[0].system == first.model.requests[0].system
    other = await walker.walk(lambda _: "x", origin=Origin(resume=first.session.id), append_system_prompt="More.")
    assert other.model.requests[0].system[-2] == "More." and "New instructions." in "".join(
        other.model.requests[0].system
    )
    assert [e.reason for e in events(transcript(walker)) if isinstance(e, Rendered)] == ["start", "resume"]


async def test_a_newer_transcript_is_refused_and_left_as_it_is(walker: Walker) -> None:
    first = await walker.walk(["one"])
    lines = transcript(walker).read_bytes().splitlines(keepends=True)
    head = json.loads(lines[0])
    head["event"]["format"] = 99
    data = json.dumps(head).encode() + b"\n" + b"".join(lines[1:])
    transcript(walker).write_bytes(data)
    for _ in range(2):  # the lock is free again after a refusal
        with pytest.raises(StoreError, match="format 99"):
            await open_session(walker.options(["x"], origin=Origin(resume=first.session.id)))
    assert transcript(walker).read_bytes() == data
