"""EnterPlanMode and ExitPlanMode: the agent enters plan mode by itself and leaves it with an approved plan."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from teamwright.core.data.message import ToolCall
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId, new_question_id
from teamwright.core.permissions.consent import Deny, Question
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.runtime.services import Services, services_of
from teamwright.runtime.tool_traits import Args, Told, ToolTraits
from teamwright.tools.define import read_args, spec

if TYPE_CHECKING:
    from teamwright.runtime.agents.agent import Agent
    from teamwright.runtime.agents.outcomes import Outcomes


class EnterPlanArgs(Struct, frozen=True):
    pass


class ExitPlanArgs(Struct, frozen=True):
    plan: Annotated[str, Meta(description="The plan, step by step, with the files that each step changes")] = ""


class EnterPlanMode:
    spec = spec(
        "EnterPlanMode",
        "Switches to plan mode: from now on you only read and search, until a plan is approved. For changes that need "
        "thought before anybody makes them.",
        EnterPlanArgs,
    )
    traits = ToolTraits(name=spec.name, audience="lead", own=True)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        read_args(EnterPlanArgs, args)
        agent = _agent(services_of(ctx), ctx)
        if agent.mode == "plan":
            return said("Plan mode is on already.")
        agent.plan.enter()
        return said("Plan mode is on: read and search, then give your plan to ExitPlanMode.")


def _subject(args: Args) -> str:
    return str(args.get("plan", "")).strip().partition("\n")[0].lstrip("# ")


async def _outcome(found: "Outcomes", agent: AgentId, call: ToolCall, when: str) -> Told | None:
    if (books := found.books) is None:
        return None
    from teamwright.store.tables.teams import call_key  # noqa: PLC0415  # teams may never be opened

    asked = await books.requests.by_key(call_key(agent, call.id))
    return (f"The plan was stored before {when}; the lead answers it.", False) if asked else None


class ExitPlanMode:
    spec = spec(
        "ExitPlanMode",
        "Hands in your plan: to the person, or to team-lead if you are a teammate. Once it is approved, plan mode ends "
        "and you carry it out; otherwise you read what to change, and hand it in again.",
        ExitPlanArgs,
        stores=True,
    )
    traits = ToolTraits(
        name=spec.name,
        effects="stored",
        outcome=_outcome,
        needed_by=frozenset({"teammate"}),
        own=True,
        asks="plan",
        subject=_subject,
        texts=("plan",),
    )

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(ExitPlanArgs, args)
        services = services_of(ctx)
        agent = _agent(services, ctx)
        if agent.mode != "plan":
            return said(
                "You are not in plan mode yourself, so no plan of yours needs approval. If calls are refused because "
                "the session is in plan mode, give the plan as your answer."
            )
        work = services.teams
        member = work.member_of(agent.id)
        if member is not None and not member.is_lead:
            id = await work.requests.submit_plan(member, asked.plan, ctx.call_id)
            words = "The plan is with team-lead, whose answer wakes you."
            return replace(said(f"{words}\nrequest_id: {id}", {"request_id": id}), ends_turn=True)
        put = services.approver
        if put is None:
            raise ToolError("Nobody is attached to approve a plan: end your turn with the plan as your answer.")
        question = Question(
            new_question_id(),
            agent.id,
            agent.name,
            ctx.call_id,
            self.spec.name,
            {"plan": asked.plan},
            "The agent has a plan and asks to carry it out.",
            kind="plan",
        )
        async with agent.slot.waiting():
            decision = await put(question)
        if isinstance(decision, Deny):
            words = f"The plan was not approved: {decision.reason} Change it and hand it in again."
            told = f"(to the plan) {decision.words}" if decision.words else ""
            return replace(said(words, is_error=True), words=told, consent=decision.consent)
        agent.plan.leave()
        return replace(said("The plan is approved and plan mode is off: carry it out."), consent=decision.consent)


def _agent(services: Services, ctx: ToolContext) -> "Agent":
    agent = services.supervisor.agent(ctx.agent)
    assert agent is not None
    return agent
