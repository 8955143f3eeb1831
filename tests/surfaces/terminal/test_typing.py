"""The input: several lines, earlier prompts, pastes, completion; nothing typed is lost."""

from typing import Any

import pytest
from stage import Stage, staged
from textual import events

from pictures import png
from teamwright.app import open_session
from teamwright.core.data.message import Image
from teamwright.models.scripted import ScriptedModel
from teamwright.runtime.local_session import LocalSession
from teamwright.store.files.paths import home_from
from teamwright.surfaces.terminal.app import TerminalApp
from teamwright.surfaces.terminal.prompt.completion import Completion, Completions, rank, rank_commands, word_at
from teamwright.surfaces.view.shapes import Spoken, Step

pytestmark = pytest.mark.anyio


def said(stage: Stage) -> list[str]:
    return [item.text for item in stage.items if isinstance(item, Spoken) and item.role == "person"]


@pytest.mark.parametrize("key", ["shift+enter", "alt+enter", "ctrl+j"])
async def test_a_prompt_can_have_several_lines(walker: Any, key: str) -> None:
    async with staged(walker) as stage:
        await stage.type("one")
        await stage.press(key)
        await stage.type("two\\")
        await stage.press("enter")
        await stage.type("three")
        await stage.press("enter")
        await stage.until(lambda: said(stage) == ["one\ntwo\nthree"])
        assert not stage.app.prompt.text


async def test_earlier_prompts_come_back_and_so_does_what_was_being_typed(walker: Any) -> None:
    async with staged(walker) as stage:
        for text in ("first", "second"):
            await stage.say(text)
            await stage.until(lambda text=text: text in said(stage))
        await stage.rests()
        await stage.type("third")
        await stage.press("up")
        assert stage.app.prompt.text == "second"
        await stage.press("up")
        assert stage.app.prompt.text == "first"
        await stage.press("down", "down")
        assert stage.app.prompt.text == "third"


async def test_what_was_not_sent_is_there_again_after_the_program_was_left(walker: Any) -> None:
    async with staged(walker) as stage:
        await stage.say("sent")
        await stage.rests()
        await stage.type("not sent yet")
    async with staged(walker) as stage:
        assert stage.app.prompt.text == "not sent yet"
        await stage.press("ctrl+c")
        assert not stage.app.prompt.text
        await stage.press("up")
        await stage.until(lambda: stage.app.prompt.text == "not sent yet")
        await stage.press("up")
        assert stage.app.prompt.text == "sent"


async def test_the_draft_is_on_the_disk_while_it_is_typed(walker: Any) -> None:
    async with staged(walker) as stage:
        await stage.type("draft")
        folder = stage.app.home.root / "input"
        await stage.until(lambda: any("draft" in path.read_text() for path in folder.glob("*.json")))
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.glob("*.json"))


@pytest.mark.spec("A12")
async def test_a_large_paste_is_a_chip_and_is_sent_whole(walker: Any) -> None:
    paste = "\n".join(f"line {n}" for n in range(5_000))
    async with staged(walker) as stage:
        await stage.type("see ")
        stage.app.prompt.post_message(events.Paste(paste))
        await stage.shows("5,000 lines")
        assert len(stage.app.prompt.text) < 100
        await stage.type(" please")
        await stage.press("enter")
        await stage.until(lambda: said(stage) == [f"see {paste} please"])
        await stage.shows("more lines")


@pytest.mark.spec("A12")
async def test_a_paste_cannot_hide_anything(walker: Any) -> None:
    async with staged(walker) as stage:
        stage.app.prompt.post_message(events.Paste("ls \x1b[2Jrm\u202e\r\nx"))
        await stage.until(lambda: stage.app.prompt.text == "ls \\x1b[2Jrm\\u202e\nx")


async def test_files_are_completed_and_pictures_attached(walker: Any) -> None:
    (walker.project / "src").mkdir()
    (walker.project / "src" / "calc.py").write_text("x = 1\n")
    (walker.project / "my shot.png").write_bytes(png())
    async with staged(walker) as stage:
        await stage.type("look at @cal")
        await stage.shows("src/calc.py")
        await stage.press("tab")
        assert stage.app.prompt.text == "look at @src/calc.py "
        await stage.type("@shot")
        await stage.shows("my shot.png")
        await stage.press("enter")
        assert stage.app.prompt.text == 'look at @src/calc.py @"my shot.png" '
        await stage.press("enter")
        await stage.rests()
        await stage.until(lambda: said(stage))
        blocks = [block for message in stage.session.main.history.messages for block in message.blocks]
        assert [block.media_type for block in blocks if isinstance(block, Image)] == ["image/png"]


@pytest.mark.spec("A5")
async def test_a_file_that_is_no_picture_is_told_to_the_person(walker: Any) -> None:
    (walker.project / "wide.png").write_bytes(png(9_000, 1))
    async with staged(walker) as stage:
        await stage.type("look at @wide.png ")
        await stage.press("enter")
        await stage.shows("at most 8,000 a side")


async def test_commands_are_completed(walker: Any) -> None:
    async with staged(walker) as stage:
        await stage.type("/ke")
        await stage.shows("all keys")
        await stage.press("enter")
        await stage.shows("the next permission mode")
        await stage.type("/")
        await stage.shows("start a new session")
        await stage.press("escape")
        await stage.gone("start a new session")
        assert stage.app.prompt.text == "/"


@pytest.mark.spec("AP3")
async def test_a_list_for_what_was_typed_before_is_not_taken(walker: Any) -> None:
    async with staged(walker) as stage:
        await stage.type("/w")
        await stage.until(lambda: stage.app.query_one(Completions).chosen)
        for key in ("h", "y", "enter"):  # all three are there before the list for "/why" is
            stage.app.prompt.post_message(events.Key(key, key if len(key) == 1 else "\r"))
        await stage.shows("WAITS FOR")
        assert "/worktrees" not in stage.screen and not stage.app.prompt.text
        assert stage.app.query_one(Completions).chosen is None


@pytest.mark.spec("AP3")
async def test_the_list_follows_a_short_paste(walker: Any) -> None:
    (walker.project / "calc.py").write_text("x = 1\n")
    (walker.project / "call.py").write_text("x = 1\n")
    async with staged(walker) as stage:
        await stage.type("@cal")
        await stage.until(lambda: stage.app.query_one(Completions).chosen)
        stage.app.prompt.post_message(events.Paste("l"))
        await stage.until(lambda: [one.word for one in stage.app.query_one(Completions).choices] == ["call.py"])
        await stage.press("tab")
        assert stage.app.prompt.text == "@call.py "


@pytest.mark.spec("AP3")
async def test_a_folder_is_not_sent_before_its_list_is_there(walker: Any) -> None:
    (walker.project / "src").mkdir()
    (walker.project / "src" / "calc.py").write_text("x = 1\n")
    async with staged(walker) as stage:
        await stage.type("see @sr")
        await stage.until(lambda: stage.app.query_one(Completions).chosen)
        for key in ("enter", "enter", "c"):  # all three are there before the list of the folder is
            stage.app.prompt.post_message(events.Key(key, key if len(key) == 1 else "\r"))
        await stage.until(lambda: stage.app.prompt.text.endswith("c"))
        assert stage.app.prompt.text == "see @src/c" and not said(stage)


@pytest.mark.spec("Q1")
async def test_a_shell_line_runs_and_reaches_the_model_with_the_next_prompt(walker: Any) -> None:
    model = ScriptedModel(["I see."])
    async with staged(walker, model) as stage:
        await stage.say("!echo from-$((40+2))")
        await stage.shows("from-42")
        assert not stage.session.main.running and not model.requests
        step = stage.items[1]
        assert isinstance(step, Step) and step.tool == "!" and step.result == "from-42"
        await stage.say("what is it?")
        await stage.shows("I see.")
        (request,) = model.requests
        assert ["from-42" in m.text for m in request.messages] == [True, False]
        assert stage.session.main.history.prompts == ["what is it?"]


@pytest.mark.spec("S1")
async def test_a_file_that_is_named_is_attached(walker: Any) -> None:
    (walker.project / "two words.txt").write_text("these-are-the-notes\n")
    model = ScriptedModel(["I see."])
    async with staged(walker, model) as stage:
        await stage.say('Look at @"two words.txt", please.')
        await stage.shows("I see.")
        _, file = model.requests[0].messages[0].blocks
        assert file.text.startswith("<attached-file ") and "these-are-the-notes" in file.text
        await stage.shows("attached: two words.txt")
        assert "these-are-the-notes" not in stage.screen


@pytest.mark.parametrize("command", ["/exit", "/quit"])
async def test_exit_leaves(walker: Any, command: str) -> None:
    async with staged(walker) as stage:
        await stage.say(command)
        await stage.until(lambda: not stage.app.is_running or stage.app.return_value is not None)


@pytest.mark.spec("AP3", "S4")
async def test_a_word_that_is_no_command_is_said_and_a_path_is_a_prompt(walker: Any) -> None:
    async with staged(walker) as stage:
        await stage.say("/permisions now")
        await stage.shows("There is no command /permisions; did you mean /permissions?")
        await stage.say("/qqqqqq")
        await stage.shows("There is no command /qqqqqq: /help lists them.")
        assert not stage.app.prompt.text
        await stage.press("up")  # and it can be taken back
        assert stage.app.prompt.text == "/qqqqqq"
        await stage.say("/nosuch look at src/a.py")
        await stage.shows("There is no command /nosuch: /help lists them.")
        await stage.say("/usr/bin is what?")
        await stage.until(lambda: said(stage) == ["/usr/bin is what?"])
        await stage.say("/usr is what?")
        await stage.until(lambda: said(stage) == ["/usr/bin is what?", "/usr is what?"])


async def test_keys_arrive_in_order_while_the_app_starts(walker: Any) -> None:
    options = walker.options(None, can_ask=True)
    session = await open_session(options)
    async with session:
        app = TerminalApp(LocalSession(session, home_from(options.env)), options)
        async with app.run_test() as pilot:
            await pilot.press(*"quick")
            assert app.prompt.text == "quick"


@pytest.mark.parametrize(
    ("text", "row", "column", "found"),
    [
        ("/he", 0, 3, ("/", "he", 0)),
        ("say /he", 0, 7, None),
        ("a @b/c", 0, 6, ("@", "b/c", 2)),
        ("mail@x", 0, 6, None),
        ('@"a b', 0, 5, ("@", "a b", 0)),
        ("x\n@y", 1, 2, ("@", "y", 0)),
        ("/a\n/b", 1, 2, None),
    ],
)
async def test_words_that_can_be_completed(text: str, row: int, column: int, found: Any) -> None:
    word = word_at(text, row, column)
    assert (word and (word.kind, word.text, word.start)) == found


@pytest.mark.spec("AP3")
async def test_commands_are_completed_by_beginning_then_use_then_name() -> None:
    names = ["cost", "compact", "btw", "clear", "mcp", "theme"]

    def ranked(wanted: str, *used: str) -> list[str]:
        return [one.word for one in rank_commands(map(Completion, names), wanted, used)]

    assert ranked("") == sorted(names)
    assert ranked("", "theme", "mcp", "theme")[:3] == ["theme", "mcp", "btw"]
    assert ranked("c", "mcp", "cost") == ["cost", "clear", "compact", "mcp"]


@pytest.mark.spec("AP3")
async def test_a_command_that_was_used_is_offered_first(walker: Any) -> None:
    async with staged(walker) as stage:
        await stage.say("/theme dark")
        await stage.type("/")
        await stage.until(lambda: stage.app.screen.query_one(Completions).display)
        assert [one.word for one in stage.app.screen.query_one(Completions).choices][:2] == ["theme", "add-dir"]


async def test_the_best_match_comes_first() -> None:
    names = ["docs/app.md", "src/apple.py", "app.py", "src/zap_p.py", "b.txt"]
    assert [c.word for c in rank(map(Completion, names), "app")] == [
        "app.py",
        "docs/app.md",
        "src/apple.py",
        "src/zap_p.py",
    ]
