"""SendMessage and ListAgents: send messages to other agents, and list the agents."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from msgspec import Meta, Struct
from msgspec.structs import replace

from teamwright.core.data.letter import Letter, Said, Sender
from teamwright.core.data.message import ToolCall
from teamwright.core.data.team import LEAD_NAME, Member, RequestId
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId, LetterId
from teamwright.core.jsontext import as_object
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.runtime.agents.outcomes import Books, Outcomes, lost
from teamwright.runtime.concurrency.unbroken import unbroken
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import Args, Told, ToolTraits
from teamwright.tools.define import read_args, spec

if TYPE_CHECKING:
    from teamwright.runtime.agents.sub_agents import AgentRecord
    from teamwright.runtime.agents.supervisor import Supervisor
    from teamwright.runtime.jobs.jobs import Job
    from teamwright.runtime.teams.requests import TeamRequests
    from teamwright.runtime.teams.service import Teamwork

ELSEWHERE = ("uds:", "bridge:")  # prefixes of addresses of other sessions: on this machine, in an engine's space
MAIN = "main"  # the main agent, or the teammate, that an agent works for; to a teammate it is the lead
_NOT_SENT = "{} before this message was stored: it was not sent. Send it again if it is still needed."


class SendArgs(Struct, frozen=True):
    to: Annotated[str, Meta(description="A teammate's name, an agent's id or name, or * for all of the team")]
    message: Annotated[
        str | dict[str, Any],
        Meta(
            description="Text, or an object: {type: shutdown_request, reason?}, {type: shutdown_response, request_id, "
            "approve, reason?}, {type: plan_approval_response, request_id, approve, feedback?, mode?}"
        ),
    ]
    summary: Annotated[str, Meta(description="The message in five to ten words; required for text")] = ""


class Structured(Struct, frozen=True):
    type: Literal["shutdown_request", "shutdown_response", "plan_approval_response"]
    request_id: str = ""
    requestId: str = ""
    approve: bool | None = None
    reason: str = ""
    feedback: str = ""
    mode: str | None = None


def _elsewhere(args: Args) -> str:
    """The address of another session; messages within a session need no approval."""
    to = args.get("to")
    return to if isinstance(to, str) and to.startswith(ELSEWHERE) else ""


def _subject(args: Args) -> str:
    message = args.get("message")
    if isinstance(message, dict):
        words = str(cast("dict[str, Any]", message).get("type", "")).replace("_", " ")
    else:
        words = str(args.get("summary") or message or "")
    return f"{args.get('to', '')}: {words}"


async def _outcome(found: Outcomes, agent: AgentId, call: ToolCall, when: str) -> Told | None:
    key, args, books = f"{agent}-{call.id}", call.args, found.books
    readers = await books.mail.readers_of(key) if books else []
    if readers or await found.posted(LetterId(f"m-{key}")):
        whom = f" (for {', '.join(readers)})" if readers else ""
        return f"The message was stored before {when}{whom}.", False
    if books is None:
        return None
    if id := await _answered(books, agent, args.get("message")):
        return f"Your answer to {id} was stored before {when}.", False
    return lost(_NOT_SENT, when)


async def _answered(books: Books, agent: AgentId, body: Any) -> RequestId | None:
    """The request that this message answers, if that answer is stored."""
    answer = as_object(body)
    id = answer.get("request_id") or answer.get("requestId")
    request = await books.requests.by_id(RequestId(id)) if isinstance(id, str) else None
    if request is None or request.answerer != agent or request.answer is None:
        return None
    return request.id


async def _answer_shutdown(requests: "TeamRequests", member: Member, id: str, reason: str, *, approve: bool) -> Outcome:
    if not approve and not reason.strip():
        raise ToolError("A refusal to shut down needs a reason.")
    await requests.answer_shutdown(member, id, approve=approve, reason=reason)
    words = "You shut down now." if approve else "The refusal is sent; go on."
    return replace(said(words, {"success": True, "message": words, "request_id": id}), ends_turn=approve)


class SendMessage:
    spec = spec(
        "SendMessage",
        "Sends a message to another agent, which sees nothing else that you write. If it is working, it reads the "
        "message after its current tool call; an idle teammate wakes up; a sub-agent that has ended resumes in the "
        "background, with all it knew, and you are told when it ends again. Replies come by themselves: do not wait.",
        SendArgs,
        stores=True,
    )
    traits = ToolTraits(
        name=spec.name,
        effects="stored",
        outcome=_outcome,
        needed_by=frozenset({"coordinator", "teammate"}),
        detail=_elsewhere,
        own=True,
        weighty=bool,
        talks=True,
        told=True,
        subject=_subject,
    )

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(SendArgs, args)
        if asked.to.startswith(ELSEWHERE):
            return await self._to_session(asked, ctx)
        work = services_of(ctx).teams
        member = work.roster.member_beside(ctx.agent, asked.to)
        if asked.to == MAIN and member is not None and not member.is_lead:
            asked = replace(asked, to=LEAD_NAME)
        if not isinstance(asked.message, str):
            if member is None:
                raise ToolError("Structured messages go to teammates, and there is no team. Send text with a summary.")
            return await self._structured(work, member, asked.to, asked.message, ctx)
        text = _text(asked, work)
        if member is not None and (asked.to == "*" or work.roster.find(member.team, asked.to) is not None):
            return await self._to_team(work, member, asked.to, text, ctx)
        if asked.to == "*":
            raise ToolError("There is no team to broadcast to.")
        return await self._to_agent(asked.to, text, member, ctx)

    async def _to_team(self, work: "Teamwork", member: Member, to: str, text: Said, ctx: ToolContext) -> Outcome:
        posted = await work.mail.say(member, to, text.text, text.summary, ctx.call_id)
        words = f"Stored for {', '.join(posted.to)}."
        if posted.refused:
            words += " Not for all: " + " ".join(posted.refused)
        for open_one in await work.requests.unanswered(member, posted.to):
            words += f" Still open: {open_one}"
        for name in posted.to:
            reader = work.roster.find(member.team, name)
            if reader is not None and (why := work.why_absent(reader.agent)):
                words += f" {name} cannot read it yet: {why}."
        return said(words, {"success": True, "message": words, "recipients": list(posted.to)})

    async def _structured(
        self, work: "Teamwork", member: Member, to: str, message: Mapping[str, Any], ctx: ToolContext
    ) -> Outcome:
        asked = read_args(Structured, message)
        asked = replace(asked, request_id=asked.request_id or asked.requestId)
        if to == "*":
            raise ToolError("A structured message goes to one member: it cannot be broadcast.")
        requests = work.requests
        if asked.type == "shutdown_request":
            id = await requests.ask_shutdown(member, to, asked.reason, ctx.call_id)
            words = f"{to} is asked to shut down; its answer comes as a message."
            return said(f"{words}\nrequest_id: {id}", {"success": True, "message": words, "request_id": id})
        if asked.approve is None or not asked.request_id:
            raise ToolError(f"{asked.type} needs request_id and approve.")
        if asked.type == "shutdown_response":
            return await _answer_shutdown(requests, member, asked.request_id, asked.reason, approve=asked.approve)
        answer = {"approve": asked.approve, "feedback": asked.feedback, "mode": asked.mode}
        given = {key: value for key, value in answer.items() if value not in (None, "")}
        await requests.answer_plan(member, to, asked.request_id, given)
        words = "The answer is sent."
        return said(words, {"success": True, "message": words, "request_id": asked.request_id})

    async def _to_session(self, asked: SendArgs, ctx: ToolContext) -> Outcome:
        """Sends to the main agent of another session, by `uds:ID` or `bridge:ID`; the gate has already asked about
        it."""
        services = services_of(ctx)
        kind, _, session = asked.to.partition(":")
        if kind == "bridge" and services.remotes is None:
            raise ToolError(
                "bridge: addresses reach sessions on other machines through an engine, and this session is in none. "
                "Tell the person instead."
            )
        if not isinstance(asked.message, str):
            raise ToolError("To another session only text can be sent.")
        work = services.teams
        text = _text(asked, work)
        me = services.supervisor.agent(ctx.agent)
        assert me is not None
        sender = Sender("agent", f"{kind}:{work.roster.session}", me.id)
        id = LetterId(f"m-{ctx.agent}-{ctx.call_id}")
        letter = Letter(id, AgentId(""), sender, text)
        living = await unbroken(work.mail.post_to_session(session, letter))
        words = f"Sent to {asked.to}; " + (
            "it reads this at its next step, or wakes up for it." if living else "it reads this when it runs again."
        )
        return said(words, {"success": True, "message": words})

    async def _to_agent(self, to: str, text: Said, member: Member | None, ctx: ToolContext) -> Outcome:
        services = services_of(ctx)
        spawner, supervisor = services.spawner, services.supervisor
        me = supervisor.agent(ctx.agent)
        assert me is not None
        known, head = spawner.find(to), supervisor.head_of(me)
        above = head.id if head is not me else me.parent  # on a worker its parent is elsewhere
        if known is None and above is not None and to in (MAIN, above, "" if head is me else head.name):
            letter = Letter(LetterId(f"m-{ctx.agent}-{ctx.call_id}"), above, Sender("agent", me.name, me.id), text)
            await unbroken(supervisor.post(letter))
            words = "Stored for the agent that you work for. It gets your report at your end all the same."
            return said(words, {"success": True, "agentId": above, "message": words})
        if known is None:
            names = ", ".join(sorted({k.id for k in spawner.known.values()})[:20]) or "none"
            where = f"in the team {member.team} or this session" if member else "in this session"
            raise ToolError(f"There is no agent {to!r} {where}. Agents: {names}. ListAgents shows them.")
        if known.id == ctx.agent:
            raise ToolError("That is you: a message to oneself goes nowhere.")
        mail = services.teams.mail
        spawner.count_answer(known, mail.limits.answers)
        # The id derives from the call, so a crash before the result is stored cannot send it twice.
        letter = Letter(LetterId(f"m-{ctx.agent}-{ctx.call_id}"), known.id, Sender("agent", me.name, me.id), text)
        job = await spawner.write(known, letter, ctx.agent, ctx.call_id)
        data: dict[str, Any] = {"success": True, "agentId": known.id}
        if job is None:
            words = f"Stored for {known.name} ({known.id}); it hears it after its current tool call."
            return said(words, data | {"message": words})
        data["outputFile"] = str(job.output)
        words = f"{known.name} goes on in the background with your message; you are told when it ends."
        return said(f"{words}\nagentId: {known.id}\noutput file: {job.output}", data | {"message": words})


def _text(asked: SendArgs, work: "Teamwork") -> Said:
    """The text of a message. The size limit applies to all of them, also outside teams."""
    assert isinstance(asked.message, str)
    limits = work.mail.limits
    most = limits.bytes
    if not asked.message.strip():
        raise ToolError("The message is empty.")
    if not asked.summary.strip():
        raise ToolError("summary is required for a text message: five to ten words.")
    if len(asked.message.encode(errors="replace")) > most:
        raise ToolError(f"The message is longer than {most // 1024} KiB: write it to a file and name the file.")
    return Said(asked.message, asked.summary)


class ListAgentsArgs(Struct, frozen=True):
    pass


class ListAgents:
    spec = spec(
        "ListAgents",
        "Lists the agents of this session (id, name, kind, state), and the background commands and monitors that run.",
        ListAgentsArgs,
        parallel=True,
    )
    traits = ToolTraits(
        name=spec.name, effects="none", needed_by=frozenset({"coordinator", "teammate"}), own=True, talks=True
    )

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        read_args(ListAgentsArgs, args)
        services = services_of(ctx)
        supervisor, roster = services.supervisor, services.teams.roster
        team = roster.team_of(ctx.agent)
        rows = [
            {"agentId": m.address, "name": m.name, "type": m.kind, "status": m.state, "description": m.description}
            for m in (roster.members(team) if team else ())
        ]
        mates = {m.agent for name in roster.names for m in roster.everybody(name)}
        spawner = services.spawner  # teammates already have a row, or have shut down
        rows += [_agent_row(known, supervisor) for known in spawner.known.values() if known.id not in mates]
        lines = [f"{r['agentId']}  {r['name']}  {r['type']}  {r['status']}  {r['description']}" for r in rows]
        jobs = [_job_row(job) for job in supervisor.jobs.running() if job.kind != "agent"]
        lines += [f"{j['taskId']}  {j['type']}  {j['status']}  {j['description']}" for j in jobs]
        return said("\n".join(lines) or "There are no other agents.", {"agents": rows, "jobs": jobs})


def _agent_row(known: "AgentRecord", supervisor: "Supervisor") -> dict[str, str]:
    job, living = supervisor.job_of(AgentId(known.id)), supervisor.agent(AgentId(known.id))
    status = "waits for its turn to run" if living and living.slot.queued else job.status if job else "ended"
    return {
        "agentId": known.id,
        "name": known.name,
        "type": known.kind,
        "status": status,
        "description": known.description,
    }


def _job_row(job: "Job") -> dict[str, str]:
    kind = "background command" if job.kind == "shell" else job.kind
    return {"taskId": job.id, "type": kind, "status": job.status, "description": job.description}
