"""CronCreate, CronDelete and CronList: scheduled prompts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from teamwright.core.data.message import ToolCall
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.runtime.agents.outcomes import Outcomes, lost
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import Told, ToolTraits
from teamwright.tools.bounds import visible
from teamwright.tools.define import read_args, spec

if TYPE_CHECKING:
    from teamwright.core.data.schedule import Schedule
    from teamwright.runtime.jobs.schedule import Schedules

MOST_SHOWN = 200  # characters of a prompt in a listing
CRON = "Five fields in local time: minute, hour, day of month, month, day of week; e.g. '0 9 * * 1-5'"
LOST = "{} before this call was stored: nothing is scheduled by it. Call it again if needed."
STAYS = "The program stays open for it."
ENDS = (
    "It comes while this session is open, and the session is not kept open for it; "
    "what was due meanwhile is given, once, when it is resumed."
)


class CronCreateArgs(Struct, frozen=True):
    prompt: Annotated[str, Meta(description="What to do then, complete in itself")]
    cron: Annotated[str | None, Meta(description=CRON)] = None
    at: Annotated[
        str | None, Meta(description="Instead of cron, one time: 2026-03-01T09:00 local, or with an offset")
    ] = None
    recurring: Annotated[bool | None, Meta(description="false: only the next time that cron names")] = None


class CronDeleteArgs(Struct, frozen=True):
    id: Annotated[str, Meta(description="The id of the schedule")]


class CronListArgs(Struct, frozen=True):
    pass


def _schedules(ctx: ToolContext) -> "Schedules":
    schedules = services_of(ctx).schedules
    if ctx.agent != schedules.main:
        raise ToolError("Only the main agent has schedules: tell it what is to be done, and when.")
    return schedules


async def _created(found: Outcomes, agent: AgentId, call: ToolCall, when: str) -> Told | None:
    if (books := found.books) is None:
        return None
    made = await books.made(agent, call.id)
    return (f"Scheduled as {made} before {when}; CronList shows it.", False) if made else lost(LOST, when)


async def _deleted(found: Outcomes, _agent: AgentId, call: ToolCall, when: str) -> Told | None:
    if (books := found.books) is None:
        return None
    id = str(call.args.get("id", "")).strip()
    if await books.kept(id):
        return f"{when.capitalize()} before it was removed: {id} is still there.", True
    return f"There is no schedule {id!r} any more.", False


class CronCreate:
    spec = spec(
        "CronCreate",
        "Gives you a prompt later, once (at) or again and again (cron), as a message in a scheduled-prompt element. "
        "Schedules stay with the session, even if the program ends and is resumed. For reminders, regular checks, or "
        "work that must wait.",
        CronCreateArgs,
        stores=True,
    )
    traits = ToolTraits(name=spec.name, effects="stored", outcome=_created, audience="main", own=True)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(CronCreateArgs, args)
        schedules = _schedules(ctx)
        made = await schedules.create(
            cron=asked.cron, at=asked.at, prompt=asked.prompt, recurring=asked.recurring, call=ctx.call_id
        )
        return said(created_words(schedules, made), _data(schedules, made) | {"keptOpen": schedules.stays})


class CronDelete:
    spec = spec("CronDelete", "Removes a schedule.", CronDeleteArgs)
    traits = ToolTraits(name=spec.name, effects="stored", outcome=_deleted, audience="main", own=True)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(CronDeleteArgs, args)
        await _schedules(ctx).delete(asked.id.strip())
        return said(f"The schedule {visible(asked.id.strip())} is gone.", {"success": True, "id": asked.id.strip()})


class CronList:
    spec = spec(
        "CronList", "Lists your schedules, the next due one first, and tells the time.", CronListArgs, parallel=True
    )
    traits = ToolTraits(name=spec.name, effects="none", audience="main", own=True)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        read_args(CronListArgs, args)
        schedules = _schedules(ctx)
        rows = schedules.rows
        words = "\n".join(_line(schedules, row) for row in rows) or "There are no schedules."
        return said(
            f"{words}\nIt is {schedules.shown(schedules.now)} now.",
            {"schedules": [_data(schedules, row) for row in rows]},
        )


def created_words(schedules: "Schedules", made: "Schedule") -> str:
    how = f"again and again ({made.cron})" if made.recurring else "once"
    return (
        f"Scheduled as {made.id}, {how}; due next at {schedules.shown(made.next)}. {STAYS if schedules.stays else ENDS}"
    )


def _line(schedules: "Schedules", row: "Schedule") -> str:
    prompt = " ".join(visible(row.prompt).split())
    short = prompt if len(prompt) <= MOST_SHOWN else f"{prompt[:MOST_SHOWN]} [...]"
    how = row.cron if row.recurring else "once"
    return f"{row.id}  {schedules.shown(row.next)}  {how}  {short}"


def _data(schedules: "Schedules", row: "Schedule") -> dict[str, Any]:
    last = None if row.last is None else schedules.shown(row.last)
    return {
        "id": row.id,
        "cron": row.cron or None,
        "recurring": row.recurring,
        "next": schedules.shown(row.next),
        "last": last,
        "prompt": row.prompt,
    }
