"""Charter: everything a worker is told about an agent it is to run. It holds no keys, environment or servers."""

from typing import Literal

import msgspec
from msgspec import Struct

from teamwright.core.data.code import Upstream
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.message import Effort
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, CallId, SessionId
from teamwright.core.permissions.consent import Behaviour, Mode
from teamwright.core.permissions.rules import Rule, Rules, Source, parse_rules

FORMAT = 1
HookName = Literal["PreToolUse", "TaskCreated", "TaskCompleted", "TeammateIdle"]


class WrittenRule(Struct, frozen=True, omit_defaults=True):
    """A permission rule as text. Relative paths start at `base`, or at the project's directory if `base` is empty."""

    behaviour: Behaviour
    text: str
    source: Source
    base: str = ""


class Charter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    session: SessionId
    agent: AgentId
    name: str
    definition: AgentDefinition  # the whole definition of its kind
    model: str
    mode: Mode  # the session's mode, which the agent's own never exceeds
    parent: AgentId
    project: str
    base: str  # the commit to start from
    format: int = FORMAT
    own_mode: Mode | None = None
    effort: Effort | int | None = None
    depth: int = 1
    description: str = ""
    call: CallId | None = None
    rules: tuple[WrittenRule, ...] = ()
    usd: float | None = None
    tokens: int | None = None
    since: int = 0  # only session spending after this time counts
    hooks: dict[HookName, tuple[str, ...]] = {}  # the hooks that exist in the lead's process, with their matchers
    asked: bool = False  # is there somebody to answer questions?
    patience: float | None = None  # seconds to wait for an answer
    instructions: str = ""  # the person's own
    trusted: bool = False  # the person trusts the project
    author: str = ""
    email: str = ""
    directory: str = ""  # start directory within the repository
    upstream: Upstream | None = None  # where to fetch the code from; None: from the engine


def encode_charter(charter: Charter) -> bytes:
    return msgspec.json.encode(charter)


def decode_charter(data: bytes) -> Charter:
    try:
        charter = msgspec.json.decode(data, type=Charter)
    except msgspec.DecodeError as error:
        raise StoreError(f"What a worker was told of an agent cannot be read: {error}.") from None
    if charter.format != FORMAT:
        raise StoreError(
            f"What a worker was told of an agent has format {charter.format}; this version of teamwright knows "
            f"{FORMAT}. Update the older one."
        )
    return charter


def write_rules(rules: Rules, project: str) -> tuple[WrittenRule, ...]:
    """Writes rules as text. Paths relative to the project stay relative, because a worker has the project elsewhere."""

    def written(behaviour: Behaviour, rule: Rule) -> WrittenRule:
        return WrittenRule(behaviour, str(rule), rule.source, "" if rule.base == project else rule.base)

    kinds: tuple[Behaviour, ...] = ("deny", "ask", "allow")
    return tuple(written(kind, rule) for kind in kinds for rule in getattr(rules, kind))


def read_rules(written: tuple[WrittenRule, ...], project: str, home: str) -> Rules:
    found: dict[Behaviour, tuple[Rule, ...]] = {}
    for one in written:
        rules, _ = parse_rules([one.text], one.source, one.base or project, home)
        found[one.behaviour] = (*found.get(one.behaviour, ()), *rules)
    return Rules(**found)
