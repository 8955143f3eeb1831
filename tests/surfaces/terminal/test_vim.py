"""The vi keys: what each does to a text, and in the app's input."""

import json
from typing import Any

import pytest
from stage import staged

from teamwright.surfaces.terminal.prompt.vim import Vim

pytestmark = [pytest.mark.anyio, pytest.mark.spec("AP5")]


def typed(text: str, keys: str) -> str:
    """The text after pressing keys in normal mode, with the cursor as `|`, also in `text`. `~` is Esc."""
    vim, at = Vim(), text.index("|")
    text = text.replace("|", "", 1)
    vim.escape(text, at)
    at = min(at, max(0, len(text) - 1))
    for key in keys:
        if key == "~":
            place = vim.escape(text, at)
            at = at if place is None else place
        elif vim.mode == "insert":
            text, at = text[:at] + key + text[at:], at + 1
        elif (change := vim.press(key, text, at)) is not None:
            text, at = text[: change.start] + change.text + text[change.end :], change.cursor
    return f"{text[:at]}|{text[at:]}"


@pytest.mark.parametrize(
    ("text", "keys", "after"),
    [
        ("|one two", "w", "one |two"), ("|one two, three", "3w", "one two, |three"), ("one two|", "b", "one |two"),
        ("|one two", "e", "on|e two"), ("|one two", "2e", "one tw|o"), ("one |two", "0", "|one two"),
        ("  one t|wo", "^", "  |one two"), ("|one two", "$", "one tw|o"), ("on|e", "h", "o|ne"), ("|one", "2l", "on|e"),
        ("|one", "9l", "on|e"), ("|one two", "x", "|ne two"), ("|one two", "3x", "| two"), ("one|", "hx", "o|e"),
        ("|one two three", "dw", "|two three"), ("|one two three", "2dw", "|three"),
        ("|one two three", "d2w", "|three"),
        ("one |two", "dw", "one| "), ("|one two", "d$", "|"), ("one |two", "D", "one| "), ("one two|", "d0", "|o"),
        ("|one\ntwo\nthree", "dd", "|two\nthree"), ("|one\ntwo\nthree", "2dd", "|three"), ("one\n|two", "dd", "|one"),
        ("|one\ntwo", "ddp", "two\n|one"), ("|one\ntwo", "yyP", "|one\none\ntwo"), ("|one\ntwo\nx", "dj", "|x"),
        ("|one two", "cwsix~", "si|x two"), ("|one two", "ccsix~", "si|x"), ("one |two", "Csix~", "one si|x"),
        ("|one", "A two~", "one tw|o"), ("  o|ne", "Ix~", "  |xone"), ("|one", "atwo~", "otw|one"),
        ("|one", "ix~", "|xone"),
        ("|one\ntwo", "ox~", "one\n|x\ntwo"), ("one\n|two", "Ox~", "one\n|x\ntwo"), ("|one two", "dwp", "tone| wo"),
        ("|ab", "xp", "b|a"), ("|one", "dqx", "|ne"), ("|", "dw", "|"), ("|", "x", "|"), ("|", "ddp", "\n|"),
        ("|one\ntwo", "dw", "|\ntwo"),
        ("|one", "rx", "|xne"), ("|one", "2rx", "x|xe"), ("|one", "9rx", "|one"), ("|one two", "ft", "one |two"),
        ("|a.b.c", "2f.", "a.b|.c"), ("|one two", "fq", "|one two"), ("one two|", "Fo", "|one two"),
        ("one tw|o", "Fn", "o|ne two"), ("|one two", "tt", "one| two"), ("one tw|o", "Tn", "on|e two"),
        ("|one two", "dfw", "|o"), ("|one two", "dtw", "|wo"), ("|one two", "dfq", "|one two"),
        ("one tw|o", "dFn", "o|o"),
        ("|one two", "cttsix~", "si|xtwo"), ("|a.b c", "W", "a.b |c"), ("a b.c|", "B", "a |b.c"),
        ("|a.b c", "E", "a.|b c"),
        ("|a.b c", "dW", "|c"), ("|a.b c", "cWx~", "|x c"), ("one\ntw|o", "gg", "|one\ntwo"),
        ("|one\ntwo\nx", "G", "one\ntwo\n|x"),
        ("|one\ntwo\nx", "2G", "one\n|two\nx"), ("one\n|two\nx", "dG", "|one"), ("one\n|two\nx", "dgg", "|x"),
        ("one t|wo x", "diw", "one | x"), ("one t|wo x", "daw", "one |x"), ("one t|wo", "daw", "on|e"),
        ("one t|wo x", "ciwsix~", "one si|x x"), ("a b.|c d", "diW", "a | d"), ("|", "diw", "|"),
        ("o|ne", "X", "|ne"), ("|one", "sx~", "|xne"), ("one |two", "Sx~", "|x"), ("|one\ntwo", "Yp", "one\n|one\ntwo"),
        ("|one\n  two", "J", "one| two"), ("|one", "J", "|one"), ("|one", "fa", "|one"), ("|one", "gx", "|one"),
    ],
)  # fmt: skip
async def test_a_key_does_what_it_does_in_vi(text: str, keys: str, after: str) -> None:
    assert typed(text, keys) == after


async def test_the_case_of_a_letter_is_turned() -> None:
    vim = Vim()
    vim.escape("one", 0)
    change = vim.press("~", "one", 0)
    assert change is not None and (change.start, change.end, change.text, change.cursor) == (0, 1, "O", 1)


async def test_the_input_has_them_after_the_command(walker: Any) -> None:
    async with staged(walker) as stage:
        await stage.say("/vim")
        await stage.shows("INSERT")
        await stage.type("one two")
        await stage.press("escape")
        await stage.shows("NORMAL")
        await stage.type("0dw")
        assert stage.app.prompt.text == "two"
        await stage.type("u")
        assert stage.app.prompt.text == "one two"
        await stage.press("A", "exclamation_mark", "escape", "enter")
        await stage.shows("▌ one two!")
        await stage.rests()
    async with staged(walker) as stage:  # it is remembered
        await stage.shows("INSERT")
        await stage.say("/vim")
        await stage.gone("INSERT")


async def test_the_setting_is_read(walker: Any) -> None:
    folder = walker.home / ".teamwright"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"editorMode": "vim"}))
    async with staged(walker) as stage:
        await stage.shows("INSERT")
        await stage.press("escape", "escape")
        await stage.shows("Esc again rewinds to an earlier prompt")  # in normal mode Esc has its usual meaning
