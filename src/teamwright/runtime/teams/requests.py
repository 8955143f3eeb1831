"""Shutdown and plan requests as records with ids. No decision is read from text that a model wrote."""

from collections.abc import Collection
from functools import partial
from typing import Any

import anyio
import msgspec

from teamwright.core.data.letter import Letter, Sender, Signal, SignalKind
from teamwright.core.data.letters.text import as_message, how_to_answer
from teamwright.core.data.team import Mail, Member, Refused, RequestId, TeamRequest, iso, new_request_id
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId, CallId, LetterId
from teamwright.core.permissions.consent import MODES, mode_allowed
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.concurrency.unbroken import following, unbroken
from teamwright.runtime.teams.deps import TeammateControl
from teamwright.runtime.teams.mail import TeamMail
from teamwright.runtime.teams.roster import Roster
from teamwright.store.tables.requests import RequestTable
from teamwright.store.tables.state import now_ms


class TeamRequests:
    def __init__(
        self,
        table: RequestTable,
        roster: Roster,
        mail: TeamMail,
        supervisor: Supervisor,
        control: TeammateControl,
        *,
        patience: float,
    ) -> None:
        """`patience`: seconds until an unanswered shutdown is reported to the lead."""
        self._table, self._roster, self._mail = table, roster, mail
        self._supervisor, self._control, self._patience = supervisor, control, patience

    # --- shutdown

    async def ask_shutdown(self, asker: Member, to: str, reason: str, call: CallId) -> RequestId:
        member = self._other(asker, to)
        id = new_request_id("shutdown")
        body = {"requestId": id, "from": asker.name, "reason": reason, "timestamp": iso(now_ms())}
        mail = self._mail.draft(asker, member, _signal("shutdown_request", body), id=f"m-{asker.agent}-{call}")
        asked = TeamRequest(id, "shutdown", asker.team, asker.agent, member.agent, {"reason": reason})
        found = await unbroken(self._table.open(asked, mail=mail, key=f"{asker.agent}/{call}"))
        if isinstance(found, Refused):
            raise ToolError(found.reason)
        with following():
            await self._mail.arrived(member)
        self._supervisor.launch(partial(self._remind, asker, member, found.id))
        return found.id

    async def _remind(self, asker: Member, member: Member, id: RequestId) -> None:
        """Tell the asker after a while that it may use force. Time alone ends nothing."""
        await anyio.sleep(self._patience)
        found = await self._table.by_id(id)
        if found is not None and found.state == "open":
            words = (
                f"{member.name} has not answered the request to shut down ({id}) within {self._patience:g} s. "
                f'TaskStop with task_id "{member.address}" stops it by force.'
            )
            await self._mail.notify(asker, words, f"r-{id}")

    async def answer_shutdown(self, member: Member, id: str, *, approve: bool, reason: str) -> None:
        """The member that was asked answers. If it approves, it ends after its turn, and the asker hears of it then."""
        request = await self._asked(id, "shutdown")
        answer = {"approve": approve, "reason": reason}
        done = await unbroken(self._table.answer(RequestId(id), member.agent, answer))
        if isinstance(done, Refused):
            raise ToolError(done.reason)
        if approve:
            return
        with following():
            asker = self._roster.find(member.team, request.asker)
            if asker is not None:
                body = {"requestId": id, "from": member.name, "reason": reason, "timestamp": iso(now_ms())}
                await self._mail.signal(member, asker, _signal("shutdown_rejected", body), id=f"h-{id}")
            await self._table.handled(RequestId(id))

    def farewell(self, member: Member, request: TeamRequest) -> Mail | None:
        """The notice to the asker, stored together with the end, so that nobody sees one without the other."""
        asker = self._roster.find(member.team, request.asker)
        if asker is None:
            return None
        body: dict[str, Any] = {
            "requestId": request.id,
            "from": member.name,
            "timestamp": iso(now_ms()),
            "backendType": member.backend,
            "paneId": (member.pane or {}).get("id"),
        }
        return self._mail.draft(member, asker, _signal("shutdown_approved", body), id=f"h-{request.id}")

    async def gone(self, member: Member, request: TeamRequest) -> None:
        """Announce a stored farewell, and close its request."""
        if (asker := self._roster.find(member.team, request.asker)) is not None:
            await self._mail.arrived(asker)
        await self._table.handled(request.id)

    async def finish(self, lead: Member) -> None:
        """Send the notices of shutdowns that were done, but not reported, when the process was killed."""
        for request in await self._table.asked_by(lead.agent):
            member = self._roster.find(lead.team, request.answerer)
            agreed = request.kind == "shutdown" and request.answer is not None and request.answer.get("approve")
            if agreed and member is not None and member.state == "shutdown":
                if (mail := self.farewell(member, request)) is not None:
                    await self._mail.store(mail)
                await self.gone(member, request)

    # --- open requests

    async def reminders(self, member: Member, *, planning: bool) -> list[tuple[LetterId, str]]:
        """What a member about to go idle should not leave open, with the ids of the letters that remind it."""
        asked = [(r, who) for r, who in await self.open_for(member.agent) if r.team == member.team]
        found = [(LetterId(f"o-{r.id}"), f"Still open: {_reminder(r, who.name)}") for r, who in asked]
        plans = await self._table.plans_of(member.agent) if planning else []
        if planning and all(plan.state != "open" for plan in plans):
            found.append((LetterId(f"o-plan-{member.agent}-{len(plans)}"), PLAN_OPEN))
        return found

    async def unanswered(self, sender: Member, readers: Collection[str]) -> list[str]:
        """Requests of these readers that plain words do not answer, each with how to answer it."""
        asked = await self.open_for(sender.agent)
        return [_reminder(r, who.name) for r, who in asked if r.team == sender.team and who.name in readers]

    async def open_for(self, agent: AgentId) -> list[tuple[TeamRequest, Member]]:
        """Requests that wait for this agent, each with its asker."""
        found = [r for r in await self._table.open_for(agent) if r.kind in ("shutdown", "plan")]
        asked = [(request, self._roster.find(request.team, request.asker)) for request in found]
        return [(request, asker) for request, asker in asked if asker is not None]

    async def recall(self, agent: AgentId) -> list[str]:
        """What an agent whose conversation was shortened must still know of open requests: those that wait for it word
        for word."""
        lines: list[str] = []
        for request, asker in await self.open_for(agent):
            signal = _signal(signal_kind(request), {"requestId": request.id, **request.body})
            letter = Letter(LetterId(request.id), agent, Sender("agent", asker.name, asker.agent), signal)
            lines.append(f"Waits for your answer:\n{as_message([letter]).text}")
        asked = await self._table.asked_by(agent)
        return [*lines, *(f"You wait for the answer to your {r.kind} request {r.id}" for r in asked)]

    # --- plans

    async def submit_plan(self, member: Member, plan: str, call: CallId) -> RequestId:
        lead = self._roster.lead_of(member.team)
        if lead is None:
            raise ToolError("There is no lead to approve a plan: end your turn with the plan as your answer.")
        id = new_request_id("plan")
        body = {"requestId": id, "from": member.name, "plan": plan, "timestamp": iso(now_ms())}
        mail = self._mail.draft(member, lead, _signal("plan_approval_request", body, member.color), id=f"p-{id}")
        asked = TeamRequest(id, "plan", member.team, member.agent, lead.agent, {"plan": plan})
        found = await unbroken(self._table.open(asked, mail=mail, key=f"{member.agent}/{call}"))
        if isinstance(found, Refused):
            raise ToolError(found.reason)
        with following():
            await self._mail.arrived(lead)
        return found.id

    async def answer_plan(self, lead: Member, to: str, id: str, answer: dict[str, Any]) -> None:
        """`answer`: approve, feedback, mode. The mode to continue in is never wider than the lead's.

        An id that is not of a plan of `to` is a mistake: it would approve what the lead did not mean.
        """
        request = await self._asked(id, "plan")
        mode = answer.get("mode")
        if mode is not None:
            if mode not in MODES:
                raise ToolError(f"There is no mode {mode!r}; there are {', '.join(MODES)}.")
            answer["mode"] = mode_allowed(self._supervisor.main.mode or "default", mode)
        member, reader = self._roster.find(request.team, request.asker), self._roster.find(lead.team, to)
        if member is None or member.state == "shutdown":
            raise ToolError(f"Plan {id} needs no answer any more: who handed it in has shut down.")
        if reader is None or reader.agent != member.agent:
            raise ToolError(f"Plan {id} is not of {to!r} but of {member.address}: answer that one.")
        body = {"requestId": id, "from": lead.name, **answer, "timestamp": iso(now_ms())}
        mail = self._mail.draft(lead, member, _signal("plan_approval_response", body), id=f"h-{id}")
        done = await unbroken(self._table.answer(RequestId(id), lead.agent, answer, mail=mail))
        if isinstance(done, Refused):
            raise ToolError(done.reason)
        with following():
            await self._control.apply_answers(member)
            await self._mail.arrived(member)

    async def _asked(self, id: str, kind: str) -> TeamRequest:
        found = await self._table.by_id(RequestId(id))
        if found is None or found.kind != kind:
            raise ToolError(f"There is no open {kind} request {id!r}. Use the request_id of the message you were sent.")
        return found

    def _other(self, asker: Member, to: str) -> Member:
        if to == "*":
            raise ToolError("A structured message goes to one member: name it.")
        member = self._roster.find(asker.team, to)
        if member is None:
            there = ", ".join(m.name for m in self._roster.members(asker.team) if m.agent != asker.agent)
            raise ToolError(f"There is no {to!r} in the team {asker.team}. There are: {there or 'no others'}.")
        if member.agent == asker.agent:
            raise ToolError("That is you: end your turn instead.")
        if member.is_lead:
            raise ToolError("The lead does not shut down on request: it ends its own session.")
        return member


PLAN_OPEN = (
    "You are in plan mode, and no plan of yours waits for an answer. Hand it in with ExitPlanMode: it goes to "
    "team-lead, whose answer wakes you. A plan that you merely write cannot be approved."
)


def signal_kind(request: TeamRequest) -> SignalKind:
    return "plan_approval_request" if request.kind == "plan" else "shutdown_request"


def _reminder(request: TeamRequest, asker: str) -> str:
    how = how_to_answer(signal_kind(request), request.id, asker)
    return f"{signal_kind(request)} {request.id} of {asker}. Words do not answer it. {how}"


def _signal(kind: SignalKind, body: dict[str, Any], color: str = "") -> Signal:
    fields = {"type": kind, **{key: value for key, value in body.items() if value not in (None, "")}}
    return Signal(kind, msgspec.json.encode(fields).decode(), color)
