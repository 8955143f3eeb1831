"""Prompts of the runtime's own questions to an agent, and the trimming of their answers to one line."""

from teamwright.core.data.message import Message, user
from teamwright.core.text import shown

SUMMARY_WORDS = 12
_LONGEST_LINE = 200  # characters
_WRAPPING = "\"'`*_“”‘’ "
_BULLETS = "-*>#• "

_QUESTION = """\
The person asks something beside the work. Answer it in a few sentences from what you know of this conversation. Call \
no tools: none will run. Neither the question nor your answer becomes part of the conversation, and the work goes on \
as it was, so promise nothing and start nothing.

<side-question>
{question}
</side-question>"""
_SUGGEST = """\
Put yourself in the person's place: what would they most likely type next? Write that prompt alone, in their voice and \
language, on one line of at most 20 words. If nothing obvious follows, write only NONE."""
_SUMMARISE = f"""\
Somebody looks over your shoulder. Say what you are doing right now, in the present tense, on one line of at most \
{SUMMARY_WORDS} words, naming files or functions where that helps. Write that line alone and call no tools."""


def side_question(text: str) -> Message:
    return user(_QUESTION.format(question=text.replace("</side-question", "<\\/side-question")))


def suggestion_ask() -> Message:
    return user(_SUGGEST)


def summary_ask() -> Message:
    return user(_SUMMARISE)


def one_line(text: str, *, words: int = 40) -> str:
    """The first line that says something, without the marks around it; empty for "none"."""
    for raw in text.splitlines():
        line = " ".join(raw.lstrip(_BULLETS).strip(_WRAPPING).split())
        if line and line.strip(".!").casefold() != "none":
            kept = line.split(" ")
            cut = " ".join(kept[:words]) + ("…" if len(kept) > words else "")
            return shown(cut, _LONGEST_LINE)
        if line:
            return ""
    return ""
