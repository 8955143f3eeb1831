"""Skill: calls instructions that people wrote for the model, by name."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from teamwright.core.data.message import ToolSpec
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import Args, ToolTraits
from teamwright.tools.agents.agent import completed, launched
from teamwright.tools.bounds import bounded, visible
from teamwright.tools.define import read_args, spec

if TYPE_CHECKING:
    from teamwright.library.skills.file import Skill
    from teamwright.runtime.extensions.skills import SkillRunner

NAME = "Skill"
MOST_LISTED = 8_192  # characters in the list
MOST_WORDS = 250  # characters per description
MOST_TEXT = 200_000

_DESCRIPTION = """\
Gives you the text of a skill: instructions that the person, or the project, wrote for a kind of task. Call it before \
you begin when a skill fits what you are about to do, then follow the text. Some skills run as an agent of their own \
and give you its report. Call only what is listed."""


class SkillArgs(Struct, frozen=True):
    skill: Annotated[str, Meta(description="Its name, as listed")]
    args: Annotated[str, Meta(description="Words for it, as its hint says")] = ""


def skill_spec(skills: "Sequence[Skill]") -> ToolSpec:
    """The tool for `skills`, those that the model may call."""
    return spec(NAME, f"{_DESCRIPTION}\n\n{listing(skills)}", SkillArgs)


def listing(skills: "Sequence[Skill]", most: int = MOST_LISTED) -> str:
    """Names and descriptions while there is room, then only names, then the number of the rest."""
    if not skills:
        return "There are no skills here yet."
    lines, rest = ["Skills:"], list[str]()
    room = most - len(lines[0]) - min(most // 4, sum(len(skill.name) + 2 for skill in skills))  # keeps room for names
    for skill in skills:
        line = _line(skill)
        if rest or len(line) + 1 > room:
            rest.append(visible(skill.name))
        else:
            room -= len(line) + 1
            lines.append(line)
    text = "\n".join(lines)
    return text if not rest else f"{text}\nFurther skills: {_names(rest, most - len(text) - 60)}"


def _line(skill: "Skill") -> str:
    words = " ".join(visible(skill.description).split())
    cut = words if len(words) <= MOST_WORDS else words[: MOST_WORDS - 1] + "…"
    hint = f" (args: {visible(skill.argument_hint)[:80]})" if skill.argument_hint else ""
    return f"- {visible(skill.name)}: {cut}{hint}"


def _names(names: Sequence[str], room: int) -> str:
    kept: list[str] = []
    for name in names:
        room -= len(name) + 2
        if room < 0:
            break
        kept.append(name)
    more = len(names) - len(kept)
    return ", ".join([*kept, *([f"and {more} more"] if more else [])])


def _named(args: Args) -> str:
    name = args.get("skill")
    return name if isinstance(name, str) else ""


class SkillTool:
    traits = ToolTraits(name=NAME, detail=_named, own=True, texts=("skill", "args"))

    def __init__(self, spec: ToolSpec, *, can_read: bool) -> None:
        self._can_read = can_read
        self.spec = spec

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(SkillArgs, args)
        runner = services_of(ctx).skills
        skill = runner.find(asked.skill)
        if skill.disable_model_invocation:
            raise ToolError(f"The skill {skill.name} is for people alone: they call it as /{skill.name}. Do without.")
        await runner.judge(skill, asked.skill, ctx.agent)
        if skill.context == "fork":
            return await self._run_apart(runner, skill, asked.args, ctx)
        runner.grant(skill, ctx.agent)
        text = await runner.text(skill, asked.args, ctx.agent)
        whole = bounded(text, most=MOST_TEXT, spill=ctx.desk.spill, name=f"skill-{skill.name}")
        return said(f"The skill {skill.name}:\n\n{whole}", {"success": True, "commandName": skill.name})

    async def _run_apart(self, runner: "SkillRunner", skill: "Skill", args: str, ctx: ToolContext) -> Outcome:
        job, plan, prompt = await runner.run_apart(skill, args, ctx)
        spawner = services_of(ctx).spawner
        known = spawner.known[AgentId(job.id)]
        if job.background:
            return launched(job, known, prompt, plan.notes, can_read=self._can_read)
        return completed(job, known, prompt, plan, spawner.is_one_shot(known.kind), ctx)
