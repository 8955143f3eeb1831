"""Bytes that a turn writes to disk, against the bytes of its conversation."""

import msgspec
from rows import Row
from session import PAGE, SMALL, Rig

SHORT, LONG = 10, 110


def said(body: bytes) -> int:
    """Calls and result texts, as they appear on the wire."""
    size = 0
    for message in msgspec.json.decode(body)["messages"]:
        for block in message["content"]:
            if block["type"] == "tool_use":
                size += len(msgspec.json.encode(block))
            elif block["type"] == "tool_result":
                size += sum(len(msgspec.json.encode(part["text"])) for part in block["content"])
    return size


def a_turn(rig: Rig, text: str) -> tuple[float, float]:
    """Bytes on disk and in the conversation, for one turn: the difference of two sessions cancels fixed costs."""
    stored, spoken = [], []
    for turns in (SHORT, LONG):
        before = rig.stored()
        seen = rig.run(turns, text=text)
        stored.append(rig.stored() - before)
        spoken.append(said(rig.last_bodies[-seen.sizes[-1] :]))
    return (stored[1] - stored[0]) / (LONG - SHORT), (spoken[1] - spoken[0]) / (LONG - SHORT)


def measure(rig: Rig) -> list[Row]:
    """A turn's fixed part (names, times, usage) dominates tiny turns, so only the turn with a page has a limit."""
    (page, page_said), (tiny, tiny_said) = a_turn(rig, PAGE), a_turn(rig, SMALL)
    return [
        Row("on disk a turn : said, Read of 1 kB", [page], [page_said], unit="bytes", most_ratio=2),
        Row("  Read of 6 bytes", [tiny], [tiny_said], unit="bytes"),
    ]
