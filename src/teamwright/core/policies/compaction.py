"""Decides when a conversation is near its context window and what replaces it."""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from teamwright.core.data.letter import ELEMENTS
from teamwright.core.data.message import Block, Message, Text, ToolCall, ToolResult, user
from teamwright.core.ids import CallId
from teamwright.core.text import neutral

SHARE = 0.9  # of the window: automatic compaction starts there
IMAGE = 6_000  # characters that a picture counts for
PROMPTS = 24_000  # characters of prompts that are kept verbatim
_LONG_RESULT = 2_000  # characters kept of a tool result if the conversation does not fit
_SHORTEST = 50  # characters kept of anything
_NUMBER = re.compile(r"(?<![\d.])(\d{1,3}(?:,\d{3})+|\d{3,})(?![\d.])")
_MOST_SAID = re.compile(r"(?:maximum|limit|available|window|n_ctx|size|[<>])\D{0,40}?(\d[\d,]{2,})", re.IGNORECASE)

ASK = """\
This conversation is about to be shortened: everything above will be replaced by what you write now. Nothing else of \
it will be known afterwards, so write down what the work needs to go on without asking anybody again:

1. What was asked for: your prompts are kept word for word, so add only what followed from them. What other agents \
asked in messages is not kept: write that down, with every constraint.
2. What has been done: files with their paths, functions, commands that were run and what they showed.
3. What was found out: facts, causes, decisions and their reasons, ways that failed.
4. What is open: the step that was under way, the next ones, promises made, questions that wait for an answer.

Be exact with names, paths, numbers and errors. Call no tools. Write only the summary."""
_HELP = "Ask for smaller steps, or use a model with a larger window."
FULL = f"the conversation was at its limit again right after it was shortened, {{times}} times: {{what}}. {_HELP}"
STUCK = f"the conversation is at its limit and could not be shortened, {{times}} times in a row: {{what}}. {_HELP}"
NO_SUMMARY = "the model wrote no summary, though asked {times} times ({fault}); the conversation stays as it is"
_AGAIN = (
    "You were asked this before, and the answer was no summary: {}. Write it in words alone, at most 1,000 of them."
)
LEFT_OUT = "[The beginning of this conversation is left out here: it did not fit.]"
GO_ON = "Go on with the work from where it stood. Do not repeat what is done, and do not mention this summary."


def is_due(tokens: int, window: int | None) -> bool:
    return window is not None and tokens > SHARE * window


def weight(text: str) -> int:
    """Size in characters, about four to a token. A non-ASCII character counts as four, because in Chinese or Japanese
    nearly every character is a token."""
    return len(text) if text.isascii() else 4 * len(text) - 3 * len(text.encode("ascii", "ignore"))


def size(message: Message) -> int:
    """Approximate size in characters as the model's window sees it."""
    total = 0
    for block in message.blocks:
        if isinstance(block, Text):
            total += weight(block.text)
        elif isinstance(block, ToolCall):
            total += len(bytes(block.input))
        elif isinstance(block, ToolResult):
            total += sum(weight(c.text) if isinstance(c, Text) else IMAGE for c in block.content)
    return total


def what_fills(messages: Sequence[Message], tokens: int, window: int) -> str:
    """Describes the largest part of a conversation of this many tokens."""
    names = {call.id: call.name for message in messages for call in message.calls}
    most, what = 0, ""
    for message in messages:
        for block in message.blocks:
            if (long := size(Message(message.role, (block,)))) > most:
                most, what = long, _kind(block, message, names)
    if sum(map(size, messages)) // 4 < tokens // 2:
        most, what = tokens * 4 - sum(map(size, messages)), "the system prompt and the tools"
    return f"{what} have about {most // 4:,} tokens, of {window:,} that fit"


def _kind(block: Block, message: Message, names: Mapping[CallId, str]) -> str:
    match block:
        case ToolCall():
            return f"the arguments of a {block.name} call"
        case ToolResult():
            return f"the contents of a {names.get(block.call_id, 'tool')} result"
        case _:
            said = "one reply" if message.role == "assistant" else "one prompt or message"
            return f"the words of {said}"


def unanswered(messages: Sequence[Message]) -> int:
    """The number of messages at the end that the model has not answered; tool results do not count."""
    count = 0
    for message in reversed(messages):
        if message.role == "assistant" or any(isinstance(b, ToolResult) for b in message.blocks):
            break
        count += 1
    return count


def asking(instructions: str = "", fault: str = "") -> Message:
    """The last message of the summary request; `fault`: why the last answer to it was no summary."""
    parts = [ASK]
    if instructions.strip():
        parts.append(f"Whoever asked for this adds: {instructions}")
    if fault:
        parts.append(_AGAIN.format(fault))
    return user("\n\n".join(parts))


def shortened(summary: str, prompts: Sequence[str], facts: Sequence[str], *, go_on: bool) -> Message:
    """The message that replaces the conversation: verbatim prompts, our records (neutral already), the summary."""
    parts = ["This conversation was shortened. What follows is all that is left of its beginning."]
    if kept := _fitting(prompts):
        said = (words if words.startswith(ELEMENTS) else neutral(words) for words in kept)  # letters are neutral inside
        parts.append("<asked-so-far>\n" + "\n---\n".join(said) + "\n</asked-so-far>")
    if facts:
        parts.append("<still-true>\n" + "\n".join(facts) + "\n</still-true>")
    parts.append(f"<summary>\n{neutral(summary, 'summary')}\n</summary>")
    if go_on:
        parts.append(GO_ON)
    return user("\n\n".join(parts))


def _fitting(prompts: Sequence[str]) -> list[str]:
    """The first prompt, which sets the topic, and as many of the last ones as fit."""
    if not prompts:
        return []
    first, room = _head(prompts[0], PROMPTS // 3), PROMPTS * 2 // 3
    last: list[str] = []
    for prompt in reversed(prompts[1:]):
        text = _head(prompt, PROMPTS // 3)
        room -= weight(text)
        if room < 0:
            last.append(f"[{len(prompts) - 1 - len(last)} others are left out]")
            break
        last.append(text)
    return [first, *reversed(last)]


def _head(text: str, most: int) -> str:
    if weight(text) <= most:
        return text
    head = text[: _fits(text, most)]
    return f"{head}\n[... {len(text) - len(head)} characters left out]"


def _fits(text: str, most: int) -> int:
    """How many leading characters stay within this weight."""
    if text.isascii():
        return most
    return bisect_right(range(len(text) + 1), most, key=lambda n: weight(text[:n])) - 1


def cut_down(messages: Sequence[Message], most: int) -> tuple[Message, ...]:
    """Reduces messages to about this many characters: long results lose their middle, then the oldest part is dropped.
    The last exchange stays, with shorter parts if need be.

    Cuts before a reply, so that no call is separated from its result.
    """
    short = [_with_shorter(message, _LONG_RESULT, (ToolResult,)) for message in messages]
    last = max((n for n, message in enumerate(short) if message.role == "assistant"), default=0)
    tail, each = short[last:], most
    while each > _SHORTEST and sum(map(size, short[last:])) > most:
        each //= 2
        short[last:] = [_with_shorter(message, each, (Text, ToolCall, ToolResult)) for message in tail]
    total, start = sum(map(size, short)), 0
    while start < last and (total > most or (start and short[start].role != "assistant")):
        total -= size(short[start])
        start += 1
    return (user(LEFT_OUT), *short[start:]) if start else tuple(short)


def _with_shorter(message: Message, most: int, kinds: tuple[type[Block], ...]) -> Message:
    """Every block of these kinds that is longer than this loses its middle."""
    if size(message) <= most:
        return message
    blocks = (_shorter(block, most) if isinstance(block, kinds) else block for block in message.blocks)
    return Message(message.role, tuple(blocks), message.model)


def _shorter(block: Block, most: int) -> Block:
    match block:
        case ToolResult():
            said = "\n".join(c.text if isinstance(c, Text) else "[a picture]" for c in block.content)
            return ToolResult(block.call_id, (Text(_without_middle(said, most)),), block.is_error)
        case ToolCall() if len(bytes(block.input)) > most:
            kept = _without_middle(bytes(block.input).decode(errors="replace"), most)
            return replace(block, input=Raw(msgspec.json.encode({"shortened": kept})))
        case Text():
            return Text(_without_middle(block.text, most))
        case _:
            return block


def fitting_summary(text: str, window: int | None) -> str:
    """Limits a summary to a quarter of the window: a longer one would soon fill it again."""
    text = text.strip()
    return text if window is None else _without_middle(text, window)


def _without_middle(text: str, most: int) -> str:
    if weight(text) <= most:
        return text
    head = text[: _fits(text, most // 2)]
    tail = text[len(text) - _fits(text[::-1], most // 2) :]
    return f"{head}\n[... {len(text) - len(head) - len(tail)} characters left out ...]\n{tail}"


def names_tokens(complaint: str) -> bool:
    return re.search(r"\btokens?\b", complaint, re.IGNORECASE) is not None


def read_window(complaint: str) -> int | None:
    """The window named in a provider's complaint: the number called a limit, else the smallest number."""
    named = _MOST_SAID.search(complaint)
    numbers = [int(n.replace(",", "")) for n in ([named[1]] if named else _NUMBER.findall(complaint))]
    if not named and len(numbers) < 2:  # a single number may be anything: a status, a count
        return None
    return min((n for n in numbers if n >= 512), default=None)
