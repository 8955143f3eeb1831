"""Answers the proxy whether a call may reach a host. What the rules leave open is put to a person, once for each."""

from collections.abc import Awaitable, Callable

import anyio
from msgspec import Struct, field

from teamwright.core.ids import AgentId, CallId, new_question_id
from teamwright.core.permissions.consent import NETWORK_ACCESS, Allow, Decision, Question
from teamwright.core.sandbox.hosts import Hosts, HostVerdict, host_verdict, is_address, with_port
from teamwright.core.text import shown

ANSWER_SECONDS = 60.0
Put = Callable[[Question], Awaitable[Decision]]


class Caller(Struct, frozen=True):
    """Who started a program, and with which call."""

    agent: AgentId
    name: str
    call: CallId
    command: str = ""


class BoxedProgram(Struct):
    """A program that runs in the sandbox."""

    caller: Caller
    hosts: Hosts
    answers: dict[str, "HostAnswer"] = field(default_factory=dict[str, "HostAnswer"])  # by host
    refused: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])


class HostAnswer(Struct):
    given: anyio.Event
    verdict: HostVerdict = "no"


class HostQuestions:
    """`put` returns None if nobody can answer. `common` gives the hosts for programs that cannot be told apart."""

    def __init__(self, put: Callable[[], Put | None], common: Callable[[], Hosts]) -> None:
        self._put, self._common = put, common
        self.runs: dict[str, BoxedProgram] = {}

    async def decide(self, call: str, host: str, port: int) -> HostVerdict:
        run = self.runs.get(call)
        if run is None:
            verdict = host_verdict(self._common(), host, port)
            return "no" if verdict == "ask" else verdict
        verdict = host_verdict(run.hosts, host, port)
        return await self._ask(run, host, port) if verdict == "ask" else verdict

    async def _ask(self, run: BoxedProgram, host: str, port: int) -> HostVerdict:
        put = self._put()
        if put is None:
            return "no"
        if (known := run.answers.get(host)) is None:
            known = run.answers[host] = HostAnswer(anyio.Event())
            try:
                with anyio.move_on_after(ANSWER_SECONDS):
                    decision = await put(_question(run.caller, host, port))
                    known.verdict = "yes" if isinstance(decision, Allow) else "no"
            finally:
                known.given.set()
        await known.given.wait()
        return known.verdict


def _question(caller: Caller, host: str, port: int) -> Question:
    what = f"`{shown(caller.command, 120)}`" if caller.command else "a program in the sandbox"
    return Question(
        new_question_id(),
        caller.agent,
        caller.name,
        caller.call,
        NETWORK_ACCESS,
        {"host": host, "port": port},
        f"{what} wants to reach {with_port(host, port)}, which no rule allows.",
        () if is_address(host) else (f"WebFetch(domain:{host})",),
    )
