"""TeamCreate and TeamDelete."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from teamwright.core.data.message import ToolCall
from teamwright.core.data.team import config
from teamwright.core.ids import AgentId
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.runtime.agents.outcomes import Outcomes, team_made
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import Told, ToolTraits
from teamwright.tools.define import read_args, spec

LOST = "{} before the team was stored: it was not made. Call it again if it is still needed."
MADE = """\
The team {name} is made; you lead it as team-lead.
- Put the work on the list (TaskCreate; blockedBy for what must wait; owner for what is for one of them, also before \
it joins), and add teammates (Agent with name, isolation "worktree" where they change files, and a prompt that names \
their tasks). Idle teammates are given any open task that is nobody's.
- End your turn whenever there is nothing to do: messages, plans to approve and notices that somebody is idle come by \
themselves. Idle only means that a turn has ended: it needs no answer.
- plan_approval_request: answer with SendMessage {{type: plan_approval_response, request_id, approve, feedback?}}.
- Bring their branches in yourself, with Land if you have it, else with git merge. The session ends when everybody is \
idle and nothing is open; shutdown_request and TeamDelete are for ending the team earlier."""
STAYS = (
    "{} before the team was deleted: it is still there, though idle teammates may have been shut down. "
    "Call it again if it is still to go."
)


class CreateArgs(Struct, frozen=True):
    team_name: Annotated[str, Meta(description="A short name")]
    description: Annotated[str, Meta(description="What the team is for")] = ""
    agent_type: Annotated[str, Meta(description="What you are in it, if that is not plain")] = ""


async def _created(found: Outcomes, agent: AgentId, call: ToolCall, when: str) -> Told | None:
    return await team_made(found, agent, call, when, LOST)


async def _deleted(found: Outcomes, agent: AgentId, call: ToolCall, when: str) -> Told | None:
    return await team_made(found, agent, call, when, STAYS)


class TeamCreate:
    spec = spec(
        "TeamCreate",
        "Makes a team that you lead: teammates work side by side as long as it lives, write to each other and share "
        "the task list. For longer work by several agents; a single question needs only a sub-agent.",
        CreateArgs,
        stores=True,
        unseen=("agent_type",),
    )
    traits = ToolTraits(
        name=spec.name,
        effects="stored",
        outcome=_created,
        audience="main",
        needed_by=frozenset({"coordinator"}),
        own=True,
        lists=True,
    )

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(CreateArgs, args)
        work = services_of(ctx).teams
        agent = work.supervisor.agent(ctx.agent)
        assert agent is not None
        team = await work.create(agent, asked.team_name, asked.description, asked.agent_type, ctx.call_id)
        data = config(team, work.roster.members(team.name))
        places = {"team_file_path": work.mirrors.config_file(team.name), "lead_agent_id": data["leadAgentId"]}
        return said(MADE.format(name=team.name), data | {"team_name": team.name} | places)


class DeleteArgs(Struct, frozen=True):
    pass


class TeamDelete:
    spec = spec(
        "TeamDelete",
        "Ends your current team: its roster, inboxes and tasks are removed. Refused while members work: ask them to "
        "shut down first (SendMessage with a shutdown_request). Idle ones are ended.",
        DeleteArgs,
        stores=True,
    )
    traits = ToolTraits(
        name=spec.name,
        effects="stored",
        outcome=_deleted,
        audience="main",
        needed_by=frozenset({"coordinator"}),
        own=True,
        lists=True,
    )

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        read_args(DeleteArgs, args)
        work = services_of(ctx).teams
        agent = work.supervisor.agent(ctx.agent)
        assert agent is not None
        team = await work.delete(agent, call=ctx.call_id)
        return said(f"The team {team} is gone.", {"success": True, "team_name": team})
