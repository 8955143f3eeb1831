"""Relays permission questions between processes as records, from a teammate to the process where the person is."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from msgspec.structs import replace

from teamwright.core.data.message import ToolCall
from teamwright.core.data.team import Member, Refused, RequestId, TeamRequest, new_request_id
from teamwright.core.ids import AgentId, CallId
from teamwright.core.permissions.consent import (
    NETWORK_ACCESS,
    Allow,
    Consent,
    Decision,
    Deny,
    Mode,
    Question,
    mode_allowed,
)
from teamwright.core.permissions.judge import Verdict
from teamwright.core.ports import Desk
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.permissions.call_facts import FactReader
from teamwright.runtime.permissions.judgement import (
    DO_WITHOUT,
    NOBODY,
    Standing,
    judge_intent,
    question_about,
    refusal,
)
from teamwright.runtime.permissions.rulebook import Rulebook
from teamwright.runtime.services import Put, Services
from teamwright.runtime.teams.roster import Roster
from teamwright.runtime.teams.teammates.state import TeammateDeps
from teamwright.store.tables.requests import RequestTable

if TYPE_CHECKING:
    from teamwright.core.sandbox.fencing import Fencing

_HEAR_LIMIT = 60.0  # seconds in which a living process acts on an answer, or is found to have died


class PermissionForwarder:
    """For a process without a person: puts a question to the lead's process and waits for the answer."""

    def __init__(self, services: Services, agent: AgentId) -> None:
        """`agent` is the teammate of this process."""
        self._services, self._agent = services, agent

    async def put(self, question: Question) -> Decision:
        """Waits until the caller cancels it; a late answer is kept with the request."""
        teams = self._services.teams
        table, roster = teams.tables.requests, teams.roster
        member = roster.member_of(self._agent)
        lead = roster.lead_of(member.team) if member else None
        if member is None or lead is None:
            return Deny(f"{question.tool} was not run: there is no lead to ask.")
        body = _body(question, member, self._services.supervisor.agent(question.agent))
        opened = await table.pending_permission(self._agent, question.tool, question.args)
        if opened is None:  # otherwise it was asked before, by a process that is gone, or answered too late
            request = TeamRequest(
                new_request_id("permission"), "permission", member.team, member.agent, lead.agent, body
            )
            opened = await table.open(request)
        if isinstance(opened, Refused):
            return Deny(f"{question.tool} was not run: {opened.reason}")
        await teams.wakeups.ring_lead(member.team)
        try:
            return await _wait_for_answer(table, roster, opened.id)
        finally:
            if not self._is_left(question):
                with anyio.CancelScope(shield=True), anyio.move_on_after(2):
                    await table.expire(opened.id)

    def _is_left(self, question: Question) -> bool:
        """Whether this process ends and leaves the call to the next one, which asks the same question again."""
        agent = self._services.supervisor.agent(question.agent)
        if agent is None or agent.id != self._agent or not agent.parked:
            return False
        waits = (call.id for call in agent.history.open_calls if call.id not in agent.history.begun)
        return question.call_id in waits


def _body(question: Question, member: Member, living: Agent | None) -> dict[str, Any]:
    desk = living.desk if living is not None else None
    return {
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


async def _wait_for_answer(table: RequestTable, roster: Roster, id: RequestId) -> Decision:
    while True:
        found = await table.by_id(id)
        if found is None:
            return Deny("The team was deleted before anybody answered.")
        if found.answer is not None:
            await table.handled(id)
            return decision_of(found.answer)
        with anyio.move_on_after(1.0):  # a lost bell costs a second
            await roster.news()


class PermissionResponder:
    """Decides questions of teammates elsewhere in the lead's process, by its rules and its person."""

    def __init__(
        self,
        deps: TeammateDeps,
        *,
        rulebook: Rulebook,
        put: Put | None,
        facts: FactReader,
        fencing: Callable[[AgentId, Desk, Mode], "Fencing | None"],
        protected: Callable[[Desk], tuple[str, ...]],
    ) -> None:
        self._tables, self._roster, self._wakeups = deps.tables, deps.roster, deps.wakeups
        self._mail, self._supervisor = deps.mail, deps.supervisor
        self._rules, self._put, self._facts, self._fencing = rulebook.of, put, facts, fencing
        self._project, self._protected = rulebook.base, protected
        self._asked: set[RequestId] = set()

    async def look(self) -> None:
        for team in self._roster.led_here():
            lead = self._roster.lead_of(team)
            for request in await self._tables.requests.open_for(lead.agent) if lead else ():
                if request.kind == "permission" and request.id not in self._asked:
                    self._asked.add(request.id)
                    if self._supervisor.agent(request.asker) is None:
                        self._supervisor.launch(partial(self._decide, request))
                    else:  # it has resumed in this process, and asks here
                        await self._tables.requests.expire(request.id)

    async def _decide(self, request: TeamRequest) -> None:
        body: dict[str, Any] = request.body
        desk = Desk(Path(body["cwd"]), tuple(map(Path, body["roots"])) or (Path(body["cwd"]),))
        own = self._supervisor.main.mode or "default"
        mode = mode_allowed(own, body["mode"]) if body.get("mode") else own
        call = ToolCall(CallId(body["toolUseId"]), body["tool"], msgspec.Raw(msgspec.json.encode(body["input"])))
        rules = self._rules(request.asker)
        fencing = self._fencing(request.asker, desk, mode)
        name, color = str(body["agent"]), str(body["color"])
        guarded = self._protected(desk)
        standing = Standing(name, mode, rules, desk, color, (), guarded, fencing, self._project)
        decision = await self._judge(request.asker, call, standing)
        answer = answer_of(decision)
        done = await self._tables.requests.answer(request.id, request.answerer, answer)
        member = next((m for m in self._roster.members(request.team) if m.agent == request.asker), None)
        if member is not None:
            await self._answered(member, body["tool"], decision, done)

    async def _answered(self, member: Member, tool: str, decision: Decision, done: TeamRequest | Refused) -> None:
        """Wake a teammate that still waits for the answer; otherwise tell it the answer by letter."""
        said = "allowed" if isinstance(decision, Allow) else "denied"
        asked = f"The question whether you may use {tool} was answered"
        if not isinstance(done, Refused):
            await self._wakeups.ring(member)
            if not await self._is_heard(member, done.id):  # its call waits for it in its transcript
                await self._mail.notify(member, f"{asked} while your process was gone: {said}.")
        elif done.code == "expired":
            words = f"{asked} when you did not wait for it any more: {said}."
            await self._mail.notify(
                member, f"{words} The answer holds for that very call: if it is still needed, make it again."
            )

    async def _is_heard(self, member: Member, id: RequestId) -> bool:
        """Whether a process of the teammate has acted on the answer, or lives and will. It may end before it can."""
        with anyio.move_on_after(_HEAR_LIMIT):
            while True:
                held = await self._tables.processes.holder(member.agent) is not None
                found = await self._tables.requests.by_id(id)
                if found is None or found.handled or not held:
                    return found is None or found.handled
                with anyio.move_on_after(1.0):
                    await self._roster.news()
        return True

    async def _judge(self, agent: AgentId, call: ToolCall, standing: Standing) -> Decision:
        """Judge by the rules here; the person decides what they leave open. No approval overrides a rule that
        denies."""
        intent = await self._facts.read(call.name, call.args, standing.desk, standing.rules)
        verdict = judge_intent(intent, standing)
        if verdict.kind == "allow" and call.name == NETWORK_ACCESS:  # no mode allows that without a question
            verdict = Verdict("ask", "a program in the sandbox wants to reach a host that no rule allows.")
        if verdict.kind == "allow":
            return Allow()
        if verdict.kind == "deny":
            return refusal(standing, call.name, verdict.reason, DO_WITHOUT, verdict.blocked_path)
        if self._put is None:
            return refusal(standing, call.name, verdict.reason, NOBODY, verdict.blocked_path)
        decision = await self._put(question_about(agent, call, call.args, standing, verdict, intent))
        if isinstance(decision, Deny):
            return decision
        now = replace(standing, rules=self._rules(agent))  # the answer may have made a rule, for this agent or for all
        wanted = call.args if decision.args is None else decision.args
        again = judge_intent(await self._facts.read(call.name, wanted, now.desk, now.rules), now)
        if again.kind == "deny" and again.final:
            return refusal(standing, call.name, again.reason, DO_WITHOUT)
        return Allow(decision.args, consent=decision.consent)


def answer_of(decision: Decision) -> dict[str, Any]:
    consent = {} if decision.consent is None else {"consent": msgspec.to_builtins(decision.consent)}
    if isinstance(decision, Allow):
        return {"behavior": "allow", "input": decision.args} | consent
    answer = {"behavior": "deny", "reason": decision.reason, "interrupt": decision.interrupt}
    return answer | consent | ({"words": decision.words} if decision.words else {})


def decision_of(answer: dict[str, Any]) -> Decision:
    consent = msgspec.convert(answer.get("consent"), Consent | None)
    if answer.get("behavior") == "allow":
        return Allow(answer.get("input"), consent=consent)
    reason, words = str(answer.get("reason", "It was denied.")), str(answer.get("words", ""))
    return Deny(reason, interrupt=bool(answer.get("interrupt")), words=words, consent=consent)
