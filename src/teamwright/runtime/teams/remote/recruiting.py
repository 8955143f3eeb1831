"""Adds teammates that run on workers: members like any other, whose agents are given to a worker or wait for one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.letter import Said
from teamwright.core.data.tasks import Actor
from teamwright.core.data.team import Member, Refused, safe_name
from teamwright.core.errors import ToolError
from teamwright.core.ports import ToolContext
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.concurrency.unbroken import unbroken
from teamwright.runtime.teams.teammates.state import TeammateDeps
from teamwright.runtime.workers.remotes import Draft
from teamwright.store.acts.members import AddMember
from teamwright.store.tables.jobs import NewAgent
from teamwright.store.tables.teams import call_key

if TYPE_CHECKING:
    from teamwright.runtime.workers.remotes import RemoteAgents


async def recruit_remotely(
    deps: TeammateDeps,
    remotes: "RemoteAgents",
    draft: Member,
    definition: AgentDefinition,
    parent: Agent,
    ctx: ToolContext,
) -> tuple[Member, Sequence[str]]:
    """Recruit the member that `draft` describes. It is on the roster when this returns, with what is to be told."""
    roster, mail, mirrors = deps.roster, deps.mail, deps.mirrors
    lead = roster.lead_of(draft.team)
    assert lead is not None
    called = safe_name(draft.name, [mate.name for mate in roster.mates(draft.team)])
    travels = Draft(
        agent=draft.agent,
        name=called,
        definition=definition,
        model=draft.model,
        parent=parent,
        effort=draft.effort,
        mode=draft.mode,
        description=draft.description,
        call=ctx.call_id,
    )
    sent = await remotes.prepare(travels)
    draft = replace(draft, cwd="", backend="remote")
    words = f"{definition.initial_prompt}\n\n{draft.prompt}" if definition.initial_prompt else draft.prompt
    row = NewAgent(draft.agent, roster.session, parent.id, definition.name, draft.name, parent.depth + 1)
    first = mail.draft(lead, draft, Said(words), id=f"m-{parent.id}-{ctx.call_id}")
    new = AddMember(draft, row, first, call_key(parent.id, ctx.call_id), mail.limits)
    member = await unbroken(remotes.enlist(sent, new))
    if isinstance(member, Refused):
        raise ToolError(member.reason)
    with anyio.CancelScope(shield=True):
        await roster.refresh(member.team)
        roster.tell(member, "spawn", draft.description)
        await mirrors.write_config(member.team)
        await mirrors.write_inboxes(member.team, member.name)
        await deps.board.claim_first(member.team, Actor(member.agent, member.name), kept=True)
        remotes.follow(member.agent)
        return member, (*sent.notes, *await remotes.waits(travels))
    raise AssertionError("a shield lets nothing through")
