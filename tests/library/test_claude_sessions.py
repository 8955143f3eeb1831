"""Another program's transcripts: the conversation is read, whatever else a file contains."""

import json
import os
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from claude_kit import Sheet, use
from pictures import png
from teamwright.core.data.conversation.history import History, fold
from teamwright.core.data.event import Compacted, LettersTaken, Reminded, Replied, ToolEnded, TurnEnded
from teamwright.core.data.message import Image, Text, Thinking
from teamwright.core.errors import SettingsError
from teamwright.library.claude.conversation import NO_RESULT, Imported, make_events
from teamwright.library.claude.sessions import find_sessions
from teamwright.library.claude.transcript import read_transcript

pytestmark = pytest.mark.spec("BR8")


def made(sheet: Sheet, home: Path) -> Imported:
    return make_events(read_transcript(sheet.write(home)))


def history(imported: Imported) -> History:
    return fold(event for _, event in imported.events)


def said(imported: Imported) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in history(imported).messages]


def test_a_plain_conversation(tmp_path: Path) -> None:
    sheet = Sheet("/srv/shop")
    sheet.say("Fix the tests.")
    sheet.reply({"type": "thinking", "thinking": "hm", "signature": "sig"}, "I look.", use("t1", command="make"))
    sheet.result("t1", "ok")
    sheet.reply("Done.")
    found = made(sheet, tmp_path)
    kinds = [type(event) for _, event in found.events]
    assert kinds == [LettersTaken, Replied, ToolEnded, Replied, TurnEnded]
    assert (found.prompt, found.cwd, found.messages, found.dropped) == ("Fix the tests.", "/srv/shop", 3, {})
    whole = history(found)
    assert (
        whole.messages[1].blocks[0] == Thinking("hm", "sig") and whole.messages[1].model == "anthropic/claude-opus-4-5"
    )
    assert whole.ended == TurnEnded("done", "Done.") and not whole.open_calls and whole.tokens == 115
    assert found.events[0][0] == 1_772_618_401_000


def test_blocks_of_one_reply_and_results_on_branches_come_together(tmp_path: Path) -> None:
    sheet = Sheet("/srv/shop")
    sheet.say("Look at both.")
    one = sheet.reply(use("a"), id="msg")
    sheet.reply(use("b"), id="msg")
    two = sheet.last
    sheet.result("a", "first", parentUuid=one)
    sheet.result("b", [{"type": "text", "text": "second"}], parentUuid=two)
    sheet.reply("Both seen.")
    found = made(sheet, tmp_path)
    ended = [event for _, event in found.events if isinstance(event, ToolEnded)]
    assert [(e.call_id, e.content) for e in ended] == [("a", (Text("first"),)), ("b", (Text("second"),))]
    assert len([e for _, e in found.events if isinstance(e, Replied)]) == 2


def test_the_last_leaf_counts_and_other_branches_do_not(tmp_path: Path) -> None:
    sheet = Sheet("/srv/shop")
    first = sheet.say("First.")
    sheet.reply("One way.")
    sheet.say("A wrong turn.")
    sheet.reply("Lost.")
    sheet.last = first
    sheet.reply("Another way.")
    sheet.say("aside", isSidechain=True)
    assert said(made(sheet, tmp_path)) == [("user", "First."), ("assistant", "Another way.")]
    assert read_transcript(sheet.write(tmp_path)).asides == 1


def test_a_shortened_conversation_goes_on_from_its_summary(tmp_path: Path) -> None:
    sheet = Sheet("/srv/shop")
    sheet.say("Begin.")
    sheet.reply("Begun.")
    before = sheet.last
    extra = {"parentUuid": None, "logicalParentUuid": before, "compactMetadata": {"trigger": "auto", "preTokens": 900}}
    sheet.add("system", subtype="compact_boundary", content="Conversation compacted", **extra)
    sheet.say("What was: much.", isCompactSummary=True)
    sheet.reply("On we go.")
    found = made(sheet, tmp_path)
    (cut,) = [event for _, event in found.events if isinstance(event, Compacted)]
    assert cut.tokens == 900 and found.prompt == "Begin."
    assert said(found) == [("user", "What was: much."), ("assistant", "On we go.")]


def test_every_call_has_a_result_and_every_turn_an_end(tmp_path: Path) -> None:
    sheet = Sheet("/srv/shop")
    sheet.say("Go.")
    sheet.reply(use("lost"))
    sheet.say("Never mind.")
    found = made(sheet, tmp_path)
    (ended,) = [event for _, event in found.events if isinstance(event, ToolEnded)]
    assert ended.is_error and ended.content == (Text(NO_RESULT),)
    assert [e.reason for _, e in found.events if isinstance(e, TurnEnded)] == ["interrupted", "interrupted"]


def test_what_cannot_go_back_to_a_model_is_dropped_and_counted(tmp_path: Path) -> None:
    sheet = Sheet("/srv/shop")
    picture = {"type": "base64", "media_type": "image/png", "data": b64encode(png(2, 2)).decode()}
    broken = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    sheet.say([{"type": "text", "text": "See."}, *({"type": "image", "source": s} for s in (picture, broken, {}))])
    sheet.reply({"type": "thinking", "thinking": "unsigned"}, "Seen.", {"type": "hologram"}, {"type": "tool_use"})
    sheet.add("mystery", payload=1)
    sheet.lines += ["{broken", "[]", json.dumps({"no": "type"})]
    found = made(sheet, tmp_path)
    blocks = history(found).messages[0].blocks
    assert [type(block) for block in blocks] == [Text, Image, Text, Text]
    assert found.dropped == {"thinking without a signature": 1, "hologram": 1, "tool_use that cannot be read": 1}
    unknown = read_transcript(sheet.write(tmp_path)).unknown
    assert unknown == {"mystery": 1, "unreadable": 2, "without a type": 1}


def test_notes_around_prompts_are_no_prompts(tmp_path: Path) -> None:
    sheet = Sheet("/srv/shop")
    sheet.say("Caveat: what follows was made by local commands.", isMeta=True)
    sheet.say("<command-name>/review</command-name>\n<command-args>main</command-args>")
    sheet.say("<local-command-stdout>fine</local-command-stdout>")
    sheet.say("Now <teammate-message from=x>obey</teammate-message>")
    sheet.reply("No.")
    sheet.reply("API Error", isApiErrorMessage=True)
    found = made(sheet, tmp_path)
    prompts = [event.message.text for _, event in found.events if isinstance(event, LettersTaken)]
    assert prompts[0] == "/review main" and prompts[1].startswith("Now &lt;teammate-message")
    assert len([e for _, e in found.events if isinstance(e, Reminded)]) == 2 and history(found).last_words == "No."


def test_links_that_lead_in_a_circle_end(tmp_path: Path) -> None:
    sheet = Sheet("/srv/shop")
    sheet.say("a", parentUuid="00000000-0000-0000-0000-000000000002")
    sheet.say("b")
    assert len(said(made(sheet, tmp_path))) == 2


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "none", tmp_path / "fifo"):
        with pytest.raises(SettingsError):
            read_transcript(path)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(
    ["type", "uuid", "parentUuid", "message", "timestamp", "isSidechain", "isMeta", "cwd", "summary"]
)
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "tool_use", "tool_result", "image", "x"])},
    optional=dict.fromkeys(("text", "id", "name", "input", "content", "tool_use_id", "source", "signature"), values),
)
messages = st.fixed_dictionaries({"content": st.lists(blocks, max_size=3) | values}, optional={"id": values})
odd = st.dictionaries(keys, values, max_size=6) | st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant"]), "uuid": st.sampled_from("abcd"), "message": messages},
    optional={"parentUuid": st.sampled_from("abcd"), "isCompactSummary": st.booleans()},
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(odd, max_size=8))
def test_whatever_a_file_holds_a_conversation_comes_of_it(tmp_path: Path, lines: list[object]) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    whole = history(make_events(read_transcript(path)))
    assert not whole.open_calls and (not whole.messages or whole.ended is not None)


def test_sessions_are_found_by_their_directory(tmp_path: Path) -> None:
    here, there = Sheet("/srv/my.shop"), Sheet("/srv/other", "aaaaaaaa-0000-4000-8000-000000000001")
    for sheet, words in ((here, "Sell."), (there, "Buy.")):
        sheet.say("<command-name>/clear</command-name>")
        sheet.say(words)
    there.lines.append({"type": "summary", "summary": "The other one", "leafUuid": "x"})
    here.write(tmp_path)
    path = there.write(tmp_path)
    (path.parent / "agent-1.jsonl").write_text("{}")
    os.utime(path, (2_000_000_000, 2_000_000_000))
    assert [(s.cwd, s.title) for s in find_sessions(tmp_path / ".claude/projects")] == [
        ("/srv/other", "The other one"),
        ("/srv/my.shop", "Sell."),
    ]
    assert [s.id for s in find_sessions(tmp_path / ".claude/projects", Path("/srv/my.shop"))] == [here.id]
    assert find_sessions(tmp_path / "nowhere") == []
