"""Alerts a person who looks elsewhere: a bell, and a desktop notification if the terminal can show one.

The words are always our own: nothing from a model or a file gets into a terminal's control sequence.
"""

import time
from collections.abc import Callable, Mapping
from typing import Literal

from anyio import to_thread

from teamwright.app import Options, open_workspace
from teamwright.store.settings.schema import Notify

Reason = Literal["asked", "ended"]
WORDS: dict[Reason, str] = {"asked": "A question is waiting for you.", "ended": "The turn has ended."}
BELL = "\x07"
_NINE = ("iTerm.app", "WezTerm", "ghostty")  # they know OSC 9
_MANY = ("foot", "rxvt", "konsole")  # OSC 777, as do all terminals based on VTE


async def ring(write: Callable[[str], None], options: Options, *, asked: bool, began: int) -> None:
    """Alert for a question, or for the end of a long turn, as the settings say now. `began` in ms since 1970."""
    took = time.time() - began / 1000
    own = (await to_thread.run_sync(open_workspace, options)).settings.own
    if asked or took >= own.notify_seconds:
        write(alert("asked" if asked else "ended", own.notify, options.env))


def alert(reason: Reason, how: Notify, env: Mapping[str, str]) -> str:
    """The text to write to the terminal; empty if the person wants no alerts."""
    if how == "off":
        return ""
    note = _note(WORDS[reason], env) if how == "desktop" else ""
    return note + BELL


def _note(words: str, env: Mapping[str, str]) -> str:
    if env.get("TMUX") or env.get("STY"):  # they would swallow it, and have bells of their own
        return ""
    program, term = env.get("TERM_PROGRAM", ""), env.get("TERM", "")
    if program in _NINE or env.get("KITTY_WINDOW_ID"):
        return f"\x1b]9;Teamwright: {words}\x1b\\"
    if env.get("VTE_VERSION") or term.startswith(_MANY):
        return f"\x1b]777;notify;Teamwright;{words}\x1b\\"
    return ""
