"""An agent's state as a fold of its events. The loop, resume, screens and tests all use this one fold."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec import Struct, field

from teamwright.core.data.code import TreeSaved
from teamwright.core.data.content.picture import Album
from teamwright.core.data.conversation.fork import is_fork, placeholders
from teamwright.core.data.event import (
    AgentEnded,
    AgentStarted,
    Compacted,
    Denied,
    Durable,
    LettersTaken,
    Mended,
    ModeChanged,
    Reminded,
    Rendered,
    Replied,
    Resumed,
    Rewound,
    Seen,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Words,
)
from teamwright.core.data.letter import ELEMENTS, LEAD
from teamwright.core.data.message import Message, Stop, Text, ToolCall, ToolResult, Usage, user
from teamwright.core.ids import CallId, LetterId
from teamwright.core.permissions.consent import Mode
from teamwright.core.permissions.rules import EDITING
from teamwright.core.text import shown

UNKNOWN = (
    "Interrupted: this call was running when the program ended, and its outcome is unknown. "
    "Look at what it did before you run it again."
)
NEVER_BEGUN = (
    "Not run: the program ended before this call began, for example while its question waited for an answer. "
    "Make it again if it is still needed."
)
STOPPED = "Interrupted before this call had finished; its outcome is unknown."
NOT_RUN = "Not run: the turn was interrupted before this call began."
LOST = {UNKNOWN, NEVER_BEGUN, STOPPED, NOT_RUN}
CUT = (
    "Your last reply was cut off at its output limit, so no tool call in it was run. "
    "Go on right where its words end, in smaller steps: shorter text, or a large file written in several calls."
)
GO_ON = "Go on from where you stopped."
_OF_LEAD = f'<teammate-message teammate_id="{LEAD}"'
_KEPT = tuple(f'{{"type":"{kind}"' for kind in ("shutdown_request", "task_assignment"))
_LONGEST = 200  # characters of a call that was refused


class History(Struct, eq=False):
    """Everything that the events of one agent add up to."""

    started: AgentStarted | None = None
    rendered: Rendered | None = None
    messages: list[Message] = []
    asked: int = 0  # number of messages in the last answered request: its cache marker was there
    tokens: int = 0  # in the last request and its reply; 0 if unknown
    owed: tuple[ToolResult, ...] = ()  # in a fork: placeholder results before its directive, in the same message
    shared: int = 0  # in a fork: the number of that message, from 1
    is_fork: bool = False  # known from what it was told
    written_by: str = ""  # the model of the last reply
    album: Album = field(default_factory=Album)  # the pictures that the next request will hold
    prompts: list[str] = []  # what a person or a parent asked for, as text, from the beginning
    prompted: int = 0  # number of prompts; rewinds count too, because grants given for one prompt end there
    heard: list[str] = []  # the prompts, the person's answers in between, and what a teammate's lead told it
    said: str = ""  # its last words before a compaction
    cut: str = ""  # the words of replies that were cut off, and that the last reply continues
    goes_on: bool = False  # whether the next reply continues the last one
    changed: dict[str, None] = {}  # files written by its own tools
    calls: dict[CallId, ToolCall] = {}  # calls of the last reply, as long as results are missing
    results: dict[CallId, ToolResult] = {}
    begun: set[CallId] = set()
    used: set[CallId] = set()  # every call id of the conversation
    letters: set[LetterId] = set()
    seen: dict[str, Seen] = {}
    cwd: str = ""
    where: str = ""  # where its process runs, as in `AgentStarted`
    replied_where: str = ""  # the same for its last reply
    mode: Mode | None = None
    usage: Usage = Usage()
    turns: int = 0
    tool_uses: int = 0
    denials: list[Denied] = []
    ends: int = 0  # number of ended turns
    resting: bool = False  # one of its own calls has ended the turn
    stop: Stop | None = None  # stop reason of the last reply
    report: bool = False  # whether the last reply was the report at a limit
    ended: TurnEnded | None = None  # how the last turn ended; None during a turn

    @property
    def open_calls(self) -> list[ToolCall]:
        """Calls without a result, in the order asked."""
        return [call for id, call in self.calls.items() if id not in self.results]

    @property
    def speaks_last(self) -> bool:
        """Is the last message the agent's own? No provider accepts a request that ends that way."""
        return bool(self.messages) and self.messages[-1].role == "assistant"

    @property
    def over(self) -> bool:
        """Whether the turn is over, recorded or not: the last reply asks for nothing, or a call has ended the turn."""
        answered = self.speaks_last and not self.calls and self.stop not in (None, "max_tokens", "pause")
        return self.resting or answered

    @property
    def last_words(self) -> str:
        """The last text of the agent, whole, also if it came in several replies."""
        return self.cut + next((m.text for m in reversed(self.messages) if m.role == "assistant" and m.text), self.said)

    def apply(self, event: Durable) -> None:  # noqa: C901 one case for each kind
        match event:
            case AgentStarted():
                self.started, self.cwd, self.where = event, event.cwd, event.where
            case Resumed():
                self.where = event.where
            case Rendered():
                self.rendered = event
            case LettersTaken():
                self.letters.update(event.letters)
                self.prompts += (asked := asked_in(event.message))
                self.heard += [
                    block.text for block in event.message.blocks if isinstance(block, Text) and _leads(block)
                ]
                self.prompted += len(asked)
                ended = None if event.letters else self.ended  # without any, nobody waits for an answer
                self._say(event.message)
                self.ended = ended
            case Reminded():
                self._say(event.message)
            case Replied():
                self._replied(event)
            case Compacted():
                self._compacted(event)
            case Mended():
                self._mended(event)
            case Rewound():
                self._rewound(event)
            case ToolStarted():
                self.begun.add(event.call_id)
            case ToolEnded():
                self._tool_ended(event)
            case Denied():
                self.denials.append(event)
                self.heard += [f"(to {_in_short(event)}) No: {event.words}"] if event.words else []
            case ModeChanged():
                self.mode = event.mode
            case TurnEnded():
                self.ended, self.ends, self.goes_on = event, self.ends + 1, False
            case TreeSaved() | AgentEnded():
                pass
            case _:
                assert_never(event)

    def branch(self, messages: Sequence[Message], calls: Iterable[ToolCall]) -> "History":
        """The start of a copy: the conversation up to these calls, without the rest of this agent's state."""
        branch = History()
        branch.messages, branch.asked, branch.used = list(messages), self.asked, set(self.used)
        branch.tokens, branch.owed = self.tokens, placeholders(calls)
        branch.changed, branch.is_fork, branch.written_by = dict(self.changed), self.is_fork, self.written_by
        branch.album = album_of(messages)
        return branch

    def _say(self, message: Message) -> None:
        if self.owed:
            message = Message("user", (*self.owed, *message.blocks))
            self.owed, self.shared = (), len(self.messages) + 1
        self.messages.append(message)
        self.album.add(message.blocks)
        self.is_fork = self.is_fork or is_fork((message,))
        self.ended, self.resting = None, False

    def _replied(self, event: Replied) -> None:
        if self.speaks_last and not self.calls:  # written by an older version that sent such requests
            self.messages.append(user(GO_ON))
        self.asked, self.resting, self.stop = len(self.messages), False, event.stop
        self.replied_where, self.report = self.where, event.report
        self.turns += 1
        self.usage += event.usage
        self.tokens = event.usage.total
        self.written_by = event.message.model
        if not event.message.blocks:  # an empty answer costs tokens and says nothing
            return
        self.cut = self.last_words if self.goes_on and event.message.text else ""
        self.goes_on = event.stop == "max_tokens" and not event.message.calls
        self.messages.append(event.message)
        self.calls = {call.id: call for call in event.message.calls}
        self.used.update(self.calls)
        self.results, self.begun = {}, set()

    def _compacted(self, event: Compacted) -> None:
        self.said, self.cut = self.last_words, ""
        self.messages = list(event.messages)
        self.calls, self.results, self.begun = {}, {}, set()  # the summary waits for no results
        self.asked = self.shared = self.tokens = 0
        self.album = album_of(self.messages)
        self.usage += event.usage

    def _mended(self, event: Mended) -> None:
        for replaced in event.replaced:
            self.messages[replaced.index] = replaced.message
        self.album = album_of(self.messages)

    def _rewound(self, event: Rewound) -> None:
        for path in event.forgets:
            self.seen.pop(path, None)
        if not event.talk:
            return
        self.messages, self.said = [*self.messages[: event.keep], *event.messages], ""
        self.cut, self.goes_on = "", False
        self.prompts, self.heard = _goes_on(self.prompts, event.prompts), _goes_on(self.heard, event.heard)
        self.calls, self.results, self.begun = {}, {}, set()
        self.asked, self.tokens, self.stop, self.cwd = event.asked, event.tokens, event.stop, event.cwd
        self.written_by = next((m.model for m in reversed(self.messages) if m.role == "assistant"), "")
        self.album = album_of(self.messages)
        self.prompted, self.resting = self.prompted + 1, False

    def _tool_ended(self, event: ToolEnded) -> None:
        self.tool_uses += 1
        self.heard += [event.words] if event.words else []
        call = self.calls.get(event.call_id)
        if call is not None and call.name in EDITING:
            self.changed.update((seen.path, None) for seen in event.seen)
        self.results[event.call_id] = ToolResult(event.call_id, event.content, event.is_error)
        self.album.add(event.content)
        self.resting = self.resting or event.ends_turn
        for seen in event.seen:
            self.seen[seen.path] = seen
        if event.cwd:
            self.cwd = event.cwd
        if len(self.results) == len(self.calls):
            self.messages.append(Message("user", tuple(self.results[id] for id in self.calls)))
            self.calls, self.results, self.begun = {}, {}, set()

    def owed_before_request(self) -> list[ToolEnded | Reminded]:
        """What the model must be told before it is asked again: a result for every call, and a last word that is not
        its own.

        Looks only at the end of the conversation; the rest was valid when it was sent.
        """
        if self.calls:
            return list(self.unfinished(crashed=False))
        return [Reminded(user(CUT if self.stop == "max_tokens" else GO_ON))] if self.speaks_last else []

    @property
    def denied(self) -> dict[CallId, str]:
        """Calls that were denied, with the reason: one of these without a result lacks only that."""
        return {denial.call_id: denial.reason for denial in self.denials}

    @property
    def may_go_on(self) -> bool:
        """Whether calls of the last reply that never began may begin now: not if they were to be refused, nor after one
        of which the model must hear first, nor once the turn was stopped."""
        refused = self.report or self.stop in ("max_tokens", "refusal")
        lost = any(isinstance(b, Text) and b.text in LOST for result in self.results.values() for b in result.content)
        return not (refused or lost or any(no.interrupt and no.call_id in self.calls for no in self.denials))

    def unfinished(self, *, crashed: bool) -> list[ToolEnded]:
        """Results for calls that will never finish: after a crash, or at an interrupt."""
        unknown, not_run = (UNKNOWN, NEVER_BEGUN) if crashed else (STOPPED, NOT_RUN)
        denied = self.denied if self.calls else {}
        return [
            ToolEnded(id, (Text(denied.get(id, unknown if id in self.begun else not_run)),), is_error=True)
            for id in (call.id for call in self.open_calls)
        ]


def _goes_on(words: list[str], event: Words) -> list[str]:
    return [*words[: event.keep], *event.more]


def album_of(messages: Iterable[Message]) -> Album:
    album = Album()
    for message in messages:
        album.add(message.blocks)
        for block in message.blocks:
            if isinstance(block, ToolResult):
                album.add(block.content)
    return album


def asked_in(message: Message) -> list[str]:
    """The prompts in a message. Words of others are wrapped in elements of ours, which no text can forge."""
    return [b.text for b in message.blocks if isinstance(b, Text) and not b.text.startswith(ELEMENTS)]


def _leads(block: Text) -> bool:
    """Whether these are words of a person, a parent or a teammate's lead; what the store keeps is left out."""
    head, _, words = block.text.partition("\n")
    return not head.startswith(ELEMENTS) or (head.startswith(_OF_LEAD) and not words.startswith(_KEPT))


def _in_short(denied: Denied) -> str:
    """The tool, with the first line of the command or of what else it was called with."""
    said = [denied.args.get("command"), *denied.args.values()]
    line = next((text.strip().partition("\n")[0] for text in said if isinstance(text, str) and text.strip()), "")
    return f"{denied.tool}: {shown(line, _LONGEST)}" if line else denied.tool


def fold(events: Iterable[Durable], history: History | None = None) -> History:
    history = history or History()
    for event in events:
        history.apply(event)
    return history
