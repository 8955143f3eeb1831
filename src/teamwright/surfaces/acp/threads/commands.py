"""Commands that the editor offers: skills, servers' prompts, and those that need no model."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct

from teamwright.core.data.message import Content, Text
from teamwright.core.data.op import AskAside, Compact, Say
from teamwright.core.data.team import split_address
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId
from teamwright.runtime.port import SessionPort
from teamwright.surfaces.acp.updates.hearing import Hearing
from teamwright.surfaces.port.own_tables import printed
from teamwright.surfaces.view.text import money, one_line, tokens

ASIDE_SECONDS = 10.0  # for an answer that was published to be heard here
MOST_MAIL = 50  # lines


class CommandDesk(Struct, frozen=True):
    """What commands work with. `attached` belongs to words that a model reads, and is nothing to the others."""

    port: SessionPort
    hearing: Hearing
    env: Mapping[str, str]
    attached: Sequence[Content] = ()

    def with_attached(self, words: str) -> str:
        return "\n".join([words, *(part.text for part in self.attached if isinstance(part, Text))])


Run = Callable[[CommandDesk, str], Awaitable[str]]


class OwnCommand(Struct, frozen=True):
    about: str
    run: Run
    hint: str = ""


async def _agents(desk: CommandDesk, words: str) -> str:
    view = desk.hearing.view
    view.price_all()
    lines = [
        f"- **{one_line(agent.name, 40)}** ({one_line(agent.kind, 40)}): {agent.state}"
        f"{f', {agent.waiting_for or agent.doing}' if agent.waiting_for or agent.doing else ''}, "
        f"{tokens(agent.tokens)} tokens"
        for agent in view.agents.values()
    ]
    return "\n".join(lines)


def _waits(for_: Sequence[int]) -> str:
    return f", waits for {', '.join(f'#{id}' for id in for_)}" if for_ else ""


async def _tasks(desk: CommandDesk, words: str) -> str:
    tasks = (await desk.port.crew()).tasks
    marks = {"completed": "x", "in_progress": "…"}
    lines = [
        f"- [{marks.get(task.status, ' ')}] #{task.id} {one_line(task.subject)}"
        f"{f' ({one_line(task.owner, 40)})' if task.owner else ''}"
        f"{_waits(task.blocked_by)}"
        for task in tasks
    ]
    return "\n".join(lines) or "There are no tasks."


async def _inbox(desk: CommandDesk, words: str) -> str:
    mail = (await desk.port.crew()).mail[-MOST_MAIL:]
    lines = [
        f"- {one_line(entry.from_name, 40)} → {one_line(entry.to_name, 40)} ({entry.state}): "
        f"{one_line(entry.summary or entry.text, 200)}"
        for entry in mail
    ]
    return "\n".join(lines) or "There is no mail."


async def _why(desk: CommandDesk, words: str) -> str:
    table = await printed(["why", desk.port.id, *words.split()], Path(desk.port.cwd), desk.env)
    return f"```\n{table}\n```"


async def _cost(desk: CommandDesk, words: str) -> str:
    facts = desk.port.facts
    table = await printed(["cost", desk.port.id], Path(desk.port.cwd), desk.env)
    return f"{money(facts.usd)} so far.\n\n```\n{table}\n```"


async def _compact(desk: CommandDesk, words: str) -> str:
    await desk.port.submit(Compact(desk.with_attached(words) if words else ""))
    return "The conversation was compacted: it continues from a summary."


async def _btw(desk: CommandDesk, words: str) -> str:
    if not words:
        raise UsageError("it needs a question")
    told = desk.hearing.aside
    await desk.port.submit(AskAside(desk.with_attached(words)))
    with anyio.move_on_after(ASIDE_SECONDS):
        await told.wait()  # the answer comes as an event
    return ""


async def _stop(desk: CommandDesk, words: str) -> str:
    if not words:
        await desk.port.stop(None)
        return "Every agent was stopped."
    agent = _find(desk, words)
    await desk.port.stop(agent)
    return f"{one_line(words, 60)} was stopped."


async def _to(desk: CommandDesk, words: str) -> str:
    name, rest = _first_word(words)
    if not rest:
        raise UsageError("it needs a name and what to say: /to ada please look at the parser, too")
    await desk.port.say(Say((Text(rest), *desk.attached), agent=_find(desk, name), typed=rest))
    return f"Told {one_line(name, 60)}."


def _find(desk: CommandDesk, named: str) -> AgentId:
    name = split_address(named)[0]
    view = desk.hearing.view
    agents = view.agents
    found = [id for id, agent in agents.items() if named == id or (agent.name == name and id != desk.port.main)]
    if len(found) != 1:
        known = ", ".join(one_line(agent.name, 40) for id, agent in agents.items() if id != desk.port.main)
        why = "several agents are" if found else "no agent is"
        raise UsageError(f"{why} called {one_line(named, 60)}; there are: {known or 'none'}")
    return found[0]


OWN: dict[str, OwnCommand] = {
    "agents": OwnCommand("show this session's agents and what each does", _agents),
    "tasks": OwnCommand("show the shared task list", _tasks),
    "inbox": OwnCommand("show the team's mail", _inbox),
    "why": OwnCommand("show what each waiting agent waits for", _why, "[AGENT]"),
    "cost": OwnCommand("show the tokens, money and time of this session", _cost),
    "compact": OwnCommand("replace the conversation by a summary", _compact, "[WHAT MATTERS]"),
    "btw": OwnCommand("ask a side question that leaves no trace", _btw, "QUESTION"),
    "stop": OwnCommand("stop an agent, or all of them", _stop, "[AGENT]"),
    "to": OwnCommand("say something to one agent", _to, "AGENT WORDS"),
}


def split_command(text: str) -> tuple[str, str]:
    """Name and words of `/name words`; the name is empty if it is no command."""
    if not text.startswith("/"):
        return "", ""
    name, words = _first_word(text[1:])
    return ("", "") if "/" in name else (name, words)


def _first_word(text: str) -> tuple[str, str]:
    first, *rest = text.split(maxsplit=1) or [""]
    return first, rest[0].strip() if rest else ""


async def names(port: SessionPort) -> list[str]:
    return list(dict.fromkeys((*OWN, *(one.name for one in await port.skills()))))


async def offered(port: SessionPort) -> list[dict[str, Any]]:
    commands = [_offer(name, one.about, one.hint) for name, one in OWN.items()]
    for one in await port.skills():
        if one.name not in OWN:
            commands.append(_offer(one.name, one_line(one.description, 300), one_line(one.hint, 100)))
    return commands


def _offer(name: str, about: str, hint: str) -> dict[str, Any]:
    return {"name": name, "description": about} | ({"input": {"hint": hint}} if hint else {})
