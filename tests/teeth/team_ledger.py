"""What a killed team has done, according to its transcripts and its provider's requests; never its own counters."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field
from team_brain import CLAIM, CREATED, GUEST, LEAD, MATES, MSG, Talk

from teamwright.core.data.event import AgentStarted, LettersTaken, Replied, ToolEnded
from teamwright.core.data.message import Text, ToolCall
from teamwright.store.files import transcripts

State = Literal["ok", "refused", "unknown"]


class Sent(Struct):
    """One invocation of SendMessage. `unknown`: its sender was killed before it knew."""

    token: str
    to: str
    state: State = "unknown"


class Figures(Struct):
    accepted: int = 0
    unknown: int = 0
    lost: int = 0
    doubled: int = 0
    tasks: int = 0
    raced: int = 0
    double_owners: int = 0
    kills: int = 0
    resumes: int = 0
    failed: int = 0
    faults: list[str] = field(default_factory=list)

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))

    def __str__(self) -> str:
        return (
            f"{self.accepted} messages accepted, {self.lost} lost, {self.doubled} doubled, {self.unknown} unknown; "
            f"{self.tasks} tasks, {self.raced} claims raced, {self.double_owners} double owners; "
            f"{self.kills} kills; {self.resumes} resumes tried, {self.failed} failed"
        )


class Diary:
    """One agent's transcript, as a history of invocations and their outcomes."""

    def __init__(self, path: Path) -> None:
        self.name = LEAD
        self.calls: dict[str, ToolCall] = {}
        self.ends: Counter[str] = Counter()
        self.results: dict[str, tuple[str, bool]] = {}
        self.heard: list[str] = []  # texts of all letters
        self.lives = 0
        for _, line in transcripts.read(path):
            self._read(line.event)

    def _read(self, event: object) -> None:
        match event:
            case AgentStarted():
                self.lives += 1
                self.name = event.name if event.parent else LEAD
            case LettersTaken():
                self.heard += [block.text for block in event.message.blocks if isinstance(block, Text)]
            case Replied():
                self.calls |= {call.id: call for call in event.message.calls}
            case ToolEnded():
                self.ends[event.call_id] += 1
                text = "\n".join(c.text for c in event.content if isinstance(c, Text))
                self.results[event.call_id] = (text, event.is_error)
            case _:
                pass

    def sent(self) -> Iterable[Sent]:
        for id, call in self.calls.items():
            said = call.args["message"] if call.name == "SendMessage" else ""
            if isinstance(said, str) and (found := MSG.search(said)):
                yield Sent(found[0], found[2], self._state(id))

    def changes(self) -> Iterable[tuple[int, str, State]]:
        """(task, "owner" or "completed", outcome) of each TaskUpdate."""
        for id, call in self.calls.items():
            if call.name == "TaskUpdate":
                yield int(call.args["taskId"]), "owner" if "owner" in call.args else "completed", self._state(id)

    def _state(self, id: str) -> State:
        if id not in self.results:
            return "unknown"
        text, is_error = self.results[id]
        return ("unknown" if "outcome is unknown" in text else "refused") if is_error else "ok"

    def unknown(self) -> list[str]:
        """Calls with an unknown outcome."""
        ends = ((call, self.results.get(id, ("", False))[0]) for id, call in self.calls.items())
        return [call.name for call, text in ends if "outcome is unknown" in text]

    def claims(self) -> set[int]:
        """Tasks that became this agent's: announced by a letter, or by the answer to its own claim."""
        told = {int(n) for text in self.heard for n in CLAIM.findall(text)}
        return told | {id for id, what, state in self.changes() if what == "owner" and state == "ok"}

    def tokens(self) -> Counter[str]:
        return Counter(m[0] for text in self.heard for m in MSG.finditer(text))


def check(state: Path, conversations: Mapping[str, bytes]) -> Figures:
    """Check everything of a team at rest. `conversations`: each agent's last request at the provider."""
    files = [*(state / "projects").glob("*/*.jsonl"), *(state / "projects").glob("*/*/agents/*.jsonl")]
    diaries = [Diary(file) for file in files]
    figures = Figures()
    names = Counter(diary.name for diary in diaries)
    if any(names[name] != 1 for name in (LEAD, *MATES)) or names[GUEST] > 1:
        figures.faults.append(f"not each agent once: {dict(names)}")
    for diary in diaries:
        twice = [id for id, many in diary.ends.items() if many != 1]
        unknown = [name for name in diary.unknown() if name != "Bash"]  # nobody can know what a command did
        figures.faults += [f"{diary.name}: results twice {twice}"] if twice else []
        figures.faults += [f"{diary.name}: outcomes unknown {unknown}"] if unknown else []
        figures.faults += [f"{diary.name}: lives {diary.lives}"] if diary.lives != 1 else []
    _check_mail(diaries, conversations, figures)
    _check_tasks(diaries, figures)
    return figures


def _check_mail(diaries: list[Diary], conversations: Mapping[str, bytes], figures: Figures) -> None:
    read = {diary.name: diary.tokens() for diary in diaries}
    seen = {
        name: Counter(m[0] for text in Talk(msgspec.json.decode(body)).texts for m in MSG.finditer(text))
        for name, body in conversations.items()
    }
    for diary in diaries:
        for sent in diary.sent():
            readers = [m for m in (LEAD, *MATES) if m == sent.to or (sent.to == "*" and m != diary.name)]
            for name in (LEAD, *MATES):
                times = read.get(name, Counter())[sent.token]
                shown = seen.get(name, Counter())[sent.token]
                figures.doubled += max(times, shown) > 1
                if name in readers and sent.state == "ok":
                    figures.accepted += 1
                    figures.lost += min(times, shown) < 1
                    if (times, shown) != (1, 1):
                        figures.faults.append(f"{sent.token} -> {name}: {times}, shown {shown}")
                elif times and (name not in readers or sent.state == "refused"):
                    figures.faults.append(f"{sent.token} ({sent.state}) reached {name}")
            figures.unknown += sent.state == "unknown"


def _check_tasks(diaries: list[Diary], figures: Figures) -> None:
    lead = next((d for d in diaries if d.name == LEAD), None)
    if lead is None:
        return
    made = [lead.results[id][0] for id, c in lead.calls.items() if c.name == "TaskCreate" and id in lead.results]
    ids = [int(found[1]) for text in made if (found := CREATED.search(text))]
    figures.tasks = len(ids)
    if ids != list(range(1, len(ids) + 1)):
        figures.faults.append(f"tasks are not numbered in the order of their calls: {ids}")
    freed = Counter(int(n) for text in lead.heard if "Free again" in text for n in _numbers(text))
    for id in ids:
        owners = [d.name for d in diaries if id in d.claims()]
        tried = {d.name for d in diaries for n, what, _ in d.changes() if n == id and what == "owner"}
        done = [d.name for d in diaries for n, what, s in d.changes() if (n, what, s) == (id, "completed", "ok")]
        figures.raced += len(tried | set(owners)) > 1
        double = len(owners) > 1 + freed[id] or len(set(done)) > 1
        figures.double_owners += double
        if double or len(done) != 1:
            figures.faults.append(f"task {id}: owners {owners}, freed {freed[id]} times, completed by {done}")


def _numbers(text: str) -> list[str]:
    return [part.split()[0] for part in text.split("Free again", 1)[1].split("#")[1:]]
