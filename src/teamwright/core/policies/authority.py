"""Rights of a team's processes in the store: a lead may change everything, a worker only what its own agents do."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec import Struct

from teamwright.core.data.letter import Letter
from teamwright.core.data.tasks import Actor
from teamwright.core.data.team import Mail
from teamwright.core.ids import AgentId

Role = Literal["lead", "worker"]
LEADS_ALONE = "it needs a lead's rights"


class Demand(Struct, frozen=True):
    """What an act needs rights for: the agents it acts for, the names they speak under, and the letters it brings."""

    agents: tuple[AgentId, ...] = ()
    names: tuple[tuple[AgentId, str], ...] = ()
    letters: tuple[Letter, ...] = ()


def demand_mail(mails: Iterable[Mail | None], *agents: AgentId) -> Demand:
    """The demand of an act that acts for these agents and brings mail."""
    found = [(mail.letter, mail.from_name) for mail in mails if mail is not None]
    names = [(letter.sender.id, name) for letter, name in found]
    return Demand(agents, tuple((id, name) for id, name in names if id), tuple(letter for letter, _ in found))


def demand_actor(by: Actor) -> Demand | None:
    """The demand of an actor. Calling itself the lead of a list requires a lead's rights."""
    return None if by.lead else Demand((by.agent,), ((by.agent, by.name),))


def refuse(
    demand: Demand | None, holds: Callable[[AgentId], bool], names_of: Callable[[AgentId], Sequence[str]]
) -> str | None:
    """Why a worker may not do this, or None if it may. An act without a demand is reserved for leads.

    A worker may bring letters of its own agents, under their own names. Letters from the person or the program it may
    only bring to its own agents: running an agent already means deciding what it reads.
    """
    if demand is None:
        return LEADS_ALONE
    for agent in demand.agents:
        if not holds(agent):
            return f"it acts for agent {agent}, which this process does not run"
    for letter in demand.letters:
        if refused := _refuse_letter(letter, holds):
            return refused
    senders = [letter.sender for letter in demand.letters if letter.sender.kind == "agent"]
    for agent, name in (*demand.names, *((sender.id, sender.name) for sender in senders if sender.id)):
        if name not in names_of(agent):
            return f"agent {agent} speaks under a name that is not its own"
    return None


def _refuse_letter(letter: Letter, holds: Callable[[AgentId], bool]) -> str | None:
    by_agent = letter.sender.kind == "agent"
    whose = letter.sender.id if by_agent else letter.to
    if whose is not None and holds(whose):
        return None
    of = "an agent" if by_agent else f"the {letter.sender.kind}"
    return f"it brings a letter of {of} to {letter.to}, and this process does not run {whose or 'its sender'}"
