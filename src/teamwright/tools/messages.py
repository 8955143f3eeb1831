"""Talking to agents: SendMessage and ListAgents."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId, LetterId
from teamwright.core.letter import Letter, Said, Sender
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.runtime.spawner import Spawner
from teamwright.runtime.supervisor import Supervisor
from teamwright.tools.define import read_args, spec

MOST = 256 * 1024  # bytes of one message


class SendArgs(Struct, frozen=True):
    to: Annotated[str, Meta(description="An agent's id or name")]
    message: Annotated[str | dict[str, Any], Meta(description="What to tell it")]
    summary: Annotated[str, Meta(description="The message in five to ten words; required for text")] = ""


class SendMessage:
    spec = spec(
        "SendMessage",
        "Tells an agent something. One that runs hears it after its current tool call; one that has ended goes on in "
        "the background, with all it knew, and you are told when it ends again.",
        SendArgs,
    )

    def __init__(self, spawner: Callable[[], Spawner], supervisor: Callable[[], Supervisor]) -> None:
        self._spawner = spawner
        self._supervisor = supervisor

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(SendArgs, args)
        text = _text(asked)
        spawner, supervisor = self._spawner(), self._supervisor()
        me = supervisor.agent(ctx.agent)
        assert me is not None
        known = spawner.find(asked.to)
        if known is None:
            names = ", ".join(sorted({k.id for k in spawner.known.values()})[:20]) or "none"
            raise ToolError(f"There is no agent {asked.to!r} in this session. Agents: {names}. ListAgents shows them.")
        if known.id == ctx.agent:
            raise ToolError("That is you: a message to oneself goes nowhere.")
        # The id is made of the call, so that a crash between here and the result cannot send it twice.
        letter = Letter(LetterId(f"m-{ctx.agent}-{ctx.call_id}"), known.id, Sender("agent", me.name, me.id), text)
        await supervisor.post(letter)
        job = await spawner.wake(known, ctx.agent, ctx.call_id)
        data: dict[str, Any] = {"success": True, "agentId": known.id}
        if job is None:
            words = f"Stored for {known.name} ({known.id}); it hears it after its current tool call."
            return said(words, data | {"message": words})
        data["outputFile"] = str(job.output)
        words = f"{known.name} goes on in the background with your message; you are told when it ends."
        return said(f"{words}\nagentId: {known.id}\noutput file: {job.output}", data | {"message": words})


def _text(asked: SendArgs) -> Said:
    if asked.to.startswith(("uds:", "bridge:")):
        raise ToolError("Messages to other sessions are not available here.")
    if asked.to == "*":
        raise ToolError("There is no team to broadcast to.")
    if not isinstance(asked.message, str):
        raise ToolError("Structured messages go to teammates, and there is no team. Send text with a summary.")
    if not asked.message.strip():
        raise ToolError("The message is empty.")
    if not asked.summary.strip():
        raise ToolError("summary is required for a text message: five to ten words.")
    if len(asked.message.encode(errors="replace")) > MOST:
        raise ToolError(f"The message is longer than {MOST // 1024} KiB: write it to a file and name the file.")
    return Said(asked.message, asked.summary)


class ListArgs(Struct, frozen=True):
    pass


class ListAgents:
    spec = spec("ListAgents", "Lists the agents of this session: id, name, kind, state.", ListArgs, parallel=True)

    def __init__(self, spawner: Callable[[], Spawner], supervisor: Callable[[], Supervisor]) -> None:
        self._spawner = spawner
        self._supervisor = supervisor

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        read_args(ListArgs, args)
        supervisor = self._supervisor()
        rows: list[dict[str, str]] = []
        for known in self._spawner().known.values():
            job = supervisor.job_of(AgentId(known.id))
            living = supervisor.agent(AgentId(known.id))
            status = "waits for its turn to run" if living and living.slot.queued else job.status if job else "ended"
            rows.append({"agentId": known.id, "name": known.name, "type": known.kind, "status": status, "description": known.description})  # noqa: E501  # fmt: skip
        lines = [f"{r['agentId']}  {r['name']}  {r['type']}  {r['status']}  {r['description']}" for r in rows]
        return said("\n".join(lines) or "There are no other agents.", {"agents": rows})
