"""Forks: copies of an agent that differ only in the last text block, so that the provider's cache covers the rest.

Every call of the turn that forked gets the same placeholder in every copy: siblings send the same bytes up to the
directive.
"""

from collections.abc import Iterable, Sequence

from teamwright.core.data.message import Message, Text, ToolCall, ToolResult

MOST_TURNS = 200
TAG = "<fork-boilerplate>"
PLACEHOLDER = "This call was not answered here: you are a fork. What to do is said below."
_RULES = f"""\
{TAG}
You are a fork: a copy of the agent above, made for one task. The conversation so far is what you know, not what you \
have to answer. From here on:
- Do the task below yourself, at once, with your tools. Do not start or ask other agents; whatever the instructions \
above say about forking was meant for the original, so ignore it.
- Talk to nobody. Nobody answers; there is no next question and no small talk. Stay within the task.
- Your last reply is the report, in at most 500 words. It begins with the word `Scope:` and has these parts:
  Scope: the task in one sentence, as you understood it
  Result: what you found out or did
  Key files: the paths that matter
  Files changed: each, with the hash of its commit if you made one; leave the part out if there are none
  Issues: what the original must know or decide; leave the part out if there are none
</fork-boilerplate>"""
_APART = "Do that before you report. The paths above are those of the original."
_SHARED = "You and the original work on the same files: commit nothing unless the task says so."


def directive(task: str, *, moved: str = "") -> str:
    """The only text in which siblings differ. `moved` describes the fork's worktree, if it has one."""
    notice = f"{moved} {_APART}" if moved else _SHARED
    return "\n\n".join([_RULES, notice, f"fork-directive: {task}"])


def placeholders(calls: Iterable[ToolCall]) -> tuple[ToolResult, ...]:
    return tuple(ToolResult(call.id, (Text(PLACEHOLDER),)) for call in calls)


def is_fork(messages: Sequence[Message]) -> bool:
    """Whether the conversation was told so, wherever it was loaded from. Tool results do not count: any file can hold
    the tag."""
    return any(
        TAG in block.text
        for message in messages
        if message.role == "user"
        for block in message.blocks
        if isinstance(block, Text)
    )
