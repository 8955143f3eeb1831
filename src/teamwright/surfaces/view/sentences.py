"""Sentences that several surfaces share: a person's refusal, the retry of a request, a rewind."""

import re
from collections.abc import Sequence

from teamwright.core.data.event import FilesRestored, Rewound
from teamwright.core.data.message import Retrying
from teamwright.core.text import plural

_SERVER_WORDS = re.compile(r"\((\d{3}): .*\)", re.S)
SAID_NO, SAID_WHY = "The person said no.", " They say: "  # as the model reads it

DECLINED = "The person would rather not answer. Decide yourself, and say what you assumed."


def refusal(why: str = "") -> str:
    """A person's no, as the model reads it."""
    return f"{SAID_NO}{SAID_WHY}{why}" if why else SAID_NO


def to_person(text: str) -> str:
    """The same refusal for the person who gave it."""
    if text == DECLINED:
        return "You skipped it."
    return text.replace(f"{SAID_NO}{SAID_WHY}", "You said no: ").replace(SAID_NO, "You said no.")


def retry_words(delta: Retrying) -> str:
    """What failed, without advice and the server's own words, and when it is tried again."""
    end = "). " if "). " in delta.reason else ". "  # the server's own words are in parentheses
    fault = f"{delta.reason.partition(end)[0]}{end.strip()}" if end in delta.reason else delta.reason
    fault = _SERVER_WORDS.sub(r"(\1)", fault)
    wait = f" in {delta.wait:.0f} s" if delta.wait >= 1 else ""
    return f"{fault.rstrip('.')}. Retry {delta.attempt} of {delta.attempts}{wait}."


def rewind_words(event: Rewound) -> str:
    if event.talk:
        return "Went back to here. What was said and used since stays on record; /rewind can take this back."
    return "Files went back, the conversation did not. /rewind can take this back."


def restored_words(event: FilesRestored) -> str:
    """What happened to the files, with a line for each that stays as it is."""
    counts = [(event.files, "put back"), (event.removed, "removed")]
    done = ", ".join(f"{plural(len(files), 'file')} {what}" for files, what in counts if files)
    return "\n".join([f"{done or 'No file had to be changed'}.", *_left(event.left)])


def _left(lines: Sequence[str]) -> list[str]:
    return [f"Left as it is: {line}" for line in lines]
