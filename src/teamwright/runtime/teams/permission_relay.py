"""Permission questions between processes, as records: asked where nobody is attached, decided where the person is."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec.structs import replace

from teamwright.core.data.message import ToolCall
from teamwright.core.data.team import Member, Refused, RequestId, TeamRequest, new_request_id
from teamwright.core.ids import AgentId, CallId
from teamwright.core.permissions.consent import Allow, Decision, Deny, Mode, Question
from teamwright.core.permissions.judge import mode_allowed
from teamwright.core.permissions.rules import Rules
from teamwright.core.ports import Desk
from teamwright.runtime.permissions.call_facts import FactReader
from teamwright.runtime.permissions.judgement import (
    DO_WITHOUT,
    NOBODY,
    Standing,
    judge_intent,
    question_about,
    refusal,
)
from teamwright.runtime.teams.roster import Teams

Put = Callable[[Question], Awaitable[Decision]]


class PermissionForwarder:
    """In a process without a person: puts a question to the lead's process and waits for the answer."""

    def __init__(self) -> None:
        self.teams: Teams | None = None
        self.agent: AgentId | None = None

    async def put(self, question: Question) -> Decision:
        """Waits for as long as whoever calls it lets it; a late answer is kept with the request."""
        teams, agent = self.teams, self.agent
        assert teams is not None and agent is not None
        member = teams.member_of(agent)
        lead = teams.lead_of(member.team) if member else None
        if member is None or lead is None:
            return Deny(f"{question.tool} was not run: there is no lead to ask.")
        living = teams.supervisor.agent(question.agent)
        desk = living.desk if living is not None else None
        body = {
            "requestId": "",
            "agent": question.agent_name,
            "color": member.color,
            "tool": question.tool,
            "input": question.args,
            "toolUseId": question.call_id,
            "reason": question.reason,
            "cwd": str(desk.cwd) if desk else member.cwd,
            "roots": [str(r) for r in desk.roots] if desk else [],
            "mode": living.mode if living is not None else None,
        }
        opened = await teams.tables.requests.pending_permission(agent, question.tool, question.args)
        if opened is None:  # else it was asked before, by a process that is gone, or answered too late
            request = TeamRequest(
                new_request_id("permission"), "permission", member.team, member.agent, lead.agent, body
            )
            opened = await teams.tables.requests.open(request)
        if isinstance(opened, Refused):
            return Deny(f"{question.tool} was not run: {opened.reason}")
        await teams.ring_lead(member.team)
        try:
            return await self._answer(teams, opened.id)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(2):
                await teams.tables.requests.expire(opened.id)

    async def _answer(self, teams: Teams, id: RequestId) -> Decision:
        while True:
            found = await teams.tables.requests.by_id(id)
            if found is None:
                return Deny("The team was deleted before anybody answered.")
            if found.answer is not None:
                await teams.tables.requests.handled(id)
                return _decision(found.answer)
            with anyio.move_on_after(1.0):  # a bell that was lost costs a second
                await teams.news()


class PermissionResponder:
    """In the lead's process: decides the questions of teammates elsewhere by its rules and its person."""

    def __init__(
        self,
        teams: Teams,
        *,
        mode: Callable[[], Mode],
        rules: Callable[[AgentId], Rules],
        put: Put | None,
        facts: FactReader,
        tell: Callable[[Member, str], Awaitable[None]],
    ) -> None:
        self._teams, self._mode, self._rules, self._put, self._facts = teams, mode, rules, put, facts
        self._tell = tell
        self._asked: set[RequestId] = set()

    async def look(self) -> None:
        for team in self._teams.led_here():
            lead = self._teams.lead_of(team)
            for request in await self._teams.tables.requests.open_for(lead.agent) if lead else ():
                if request.kind == "permission" and request.id not in self._asked:
                    self._asked.add(request.id)
                    self._teams.supervisor.launch(lambda r=request: self._decide(r))

    async def _decide(self, request: TeamRequest) -> None:
        body: dict[str, Any] = request.body
        desk = Desk(Path(body["cwd"]), tuple(map(Path, body["roots"])) or (Path(body["cwd"]),))
        mode = mode_allowed(self._mode(), body["mode"]) if body.get("mode") else self._mode()
        call = ToolCall(CallId(body["toolUseId"]), body["tool"], msgspec.Raw(msgspec.json.encode(body["input"])))
        rules = self._rules(request.asker)
        standing = Standing(str(body["agent"]), mode, rules, desk, str(body["color"]))
        decision = await self._judge(request.asker, call, standing)
        answer = _answer_of(decision)
        done = await self._teams.tables.requests.answer(request.id, request.answerer, answer)
        member = next((m for m in self._teams.members(request.team) if m.agent == request.asker), None)
        if member is None:
            return
        held = await self._teams.tables.processes.holder(member.agent) is not None
        if held and not isinstance(done, Refused):
            await self._teams.ring(member)
        elif not isinstance(done, Refused) or done.code == "expired":
            said = "allowed" if isinstance(decision, Allow) else "denied"
            words = (
                f"The question whether you may use {body['tool']} was answered when you did not wait for it any more: "
                f"{said}. The answer holds for that very call: if it is still needed, make it again."
            )
            await self._tell(member, words)

    async def _judge(self, agent: AgentId, call: ToolCall, standing: Standing) -> Decision:
        """By the rules here, and if they leave it open by the person. What a rule denies, no yes allows."""
        verdict = judge_intent(await self._facts.read(call.name, call.args, standing.desk), standing)
        if verdict.kind == "allow":
            return Allow()
        if verdict.kind == "deny":
            return refusal(standing, call.name, verdict.reason, DO_WITHOUT)
        if self._put is None:
            return refusal(standing, call.name, verdict.reason, NOBODY)
        decision = await self._put(question_about(agent, call, call.args, standing, verdict))
        if isinstance(decision, Deny):
            return decision
        now = replace(standing, rules=self._rules(agent))  # the answer may have made a rule, for this one or for all
        wanted = call.args if decision.args is None else decision.args
        again = judge_intent(await self._facts.read(call.name, wanted, standing.desk), now)
        if again.kind == "deny" and again.final:
            return refusal(standing, call.name, again.reason, DO_WITHOUT)
        return Allow(decision.args)


def _answer_of(decision: Decision) -> dict[str, Any]:
    if isinstance(decision, Allow):
        return {"behavior": "allow", "input": decision.args}
    return {"behavior": "deny", "reason": decision.reason, "interrupt": decision.interrupt}


def _decision(answer: dict[str, Any]) -> Decision:
    if answer.get("behavior") == "allow":
        return Allow(answer.get("input"))
    return Deny(str(answer.get("reason", "It was denied.")), interrupt=bool(answer.get("interrupt")))
