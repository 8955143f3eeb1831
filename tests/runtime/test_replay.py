"""A screen that folds the end of a transcript, and pages of it, must show the same as folding all of it."""

from pathlib import Path
from random import Random

import pytest
from msgspec import Raw

from teamwright.core.data.event import (
    AgentStarted,
    Denied,
    Durable,
    LettersTaken,
    Rendered,
    Replied,
    Rewound,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from teamwright.core.data.message import Message, Text, ToolCall, Usage, user
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, CallId, SessionId
from teamwright.runtime.past.replay import PageReader, read_all
from teamwright.runtime.port import END
from teamwright.store.files.paths import Home
from teamwright.store.files.transcripts import Transcript
from teamwright.surfaces.view.shapes import Item, Step
from teamwright.surfaces.view.talk import TalkFold
from teamwright.surfaces.view.view import SessionFold, older

SESSION = SessionId("11111111-2222-4333-8444-555555555555")
MAIN = AgentId(SESSION)
PATCH = {"structuredPatch": [{"oldStart": 1, "newStart": 1, "lines": [" a", "-b", "+c", "+d"]}]}


def turn(random: Random, n: int) -> list[Durable]:
    calls = [CallId(f"c{n}-{k}") for k in range(random.randrange(4))]
    made = [ToolCall(id, "Edit", Raw(b'{"file_path":"/a"}')) for id in calls]
    model = random.choice(["m1", "m2", ""])
    events: list[Durable] = [LettersTaken((), user(f"question {n}"))]
    if calls:
        message = Message("assistant", (Text(f"before {n}"), *made), model)
        events.append(Replied(message, "tool_use", Usage(random.randrange(9), 2, 3, 4), ms=5))
    for id in calls:
        events.append(ToolStarted(id))
        if random.random() < 0.2:
            events.append(Denied(id, "Edit", {}, "no"))
        events.append(ToolEnded(id, (Text("done"),), is_error=random.random() < 0.3, data=PATCH))
    answer = Message("assistant", (Text(f"answer {n}"),), model)
    return [*events, Replied(answer, "end_turn", Usage(1, random.randrange(9)), ms=1), TurnEnded("done", "ok")]


def write(home: Home, random: Random, *, rewinds: bool) -> Path:
    files = home.files(Path("/shop"), SESSION)
    transcript = Transcript.create(files.transcript)
    transcript.append(AgentStarted(SESSION, "/shop", "1"), 1)
    transcript.append(Rendered("p", "m3", "start"), 2)
    prompts: list[int] = []
    for n in range(60):
        if n == 30:
            transcript.append(Rendered("p", "m4", "model"), 3 + n)
        if rewinds and prompts and random.random() < 0.1:
            to = random.choice(prompts[-12:])
            prompts.append(transcript.append(Rewound(to, 1, talk=random.random() < 0.8), 3 + n))
        prompts.append(transcript.lines + 1)
        for event in turn(random, n):
            transcript.append(event, 3 + n)
    transcript.close()
    return files.transcript


def shape(item: Item) -> tuple[object, ...]:
    if isinstance(item, Step):
        return item.n, item.call_id, item.title, item.status, item.result, item.patch
    return type(item), item.n, item.text


def fold(home: Home, newest: int) -> SessionFold:
    view = SessionFold(MAIN, price=lambda model, usage: usage.total * len(model))
    past, elsewhere = read_all(home, SESSION, {MAIN: END}, newest)
    assert not elsewhere
    for record in past.records:
        view.apply(record)
    for agent, skimmed in past.skimmed.items():
        view.pass_over(agent, skimmed)
    view.price_all()
    return view


@pytest.mark.spec("AP10")
@pytest.mark.parametrize("rewinds", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_the_end_alone_shows_what_all_of_it_shows(tmp_path: Path, seed: int, rewinds: bool) -> None:
    home = Home(tmp_path)
    write(home, Random(seed), rewinds=rewinds)
    whole, part = fold(home, END), fold(home, 40)
    assert part.agent(MAIN) == whole.agent(MAIN) and part.totals == whole.totals
    all_items, items = list(map(shape, whole.talk(MAIN).items)), list(map(shape, part.talk(MAIN).items))
    assert len(items) >= 15 and items == all_items[-len(items) :]
    assert rewinds or (len(items) < len(all_items) / 2 and part.talk(MAIN).dropped)


@pytest.mark.parametrize("rewinds", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_pages_together_are_the_whole(tmp_path: Path, seed: int, rewinds: bool) -> None:
    home = Home(tmp_path)
    write(home, Random(seed), rewinds=rewinds)
    reader, before, found = PageReader(home, SESSION), END, list[Item]()
    while True:
        records = reader.read(MAIN, before, 30)
        assert records is not None
        assert rewinds or len(records) < 60
        page = older(records, MAIN, before)
        if not page:
            break
        found[:0], before = page, page[0].n
    whole = TalkFold(most=END)
    for record in reader.read(MAIN, END, END) or ():
        whole.apply(record)
    assert list(map(shape, found)) == list(map(shape, whole.talk.items))


def test_a_damaged_line_that_is_passed_over_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path)
    path = write(home, Random(1), rewinds=False)
    lines = path.read_bytes().split(b"\n")
    place = next(n for n, line in enumerate(lines) if b'"type":"replied"' in line)
    lines[place] = lines[place][:60]
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(StoreError, match=f"line {place + 1}"):
        fold(home, 40)
