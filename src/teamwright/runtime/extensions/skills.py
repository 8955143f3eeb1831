"""Expands a called skill: fills in arguments, and runs commands and includes files as the gate allows.

What a skill includes is judged like the agent's own Bash and Read calls, with the skill's allowed tools as rules.
"""

import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import anyio
import msgspec
from anyio import to_thread
from msgspec import Raw, Struct

from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Message, Reply, Text, ToolCall, Usage
from teamwright.core.errors import SettingsError, ToolError
from teamwright.core.ids import AgentId, CallId, JobId, new_letter_id
from teamwright.core.permissions.consent import Allow, Decision, Deny
from teamwright.core.permissions.rules import BASH, READ, SKILL
from teamwright.core.policies.spawn import DEFAULT_KIND, Ask, Plan
from teamwright.core.ports import ToolContext
from teamwright.core.text import neutral, shown
from teamwright.host.files.paths import is_directory
from teamwright.host.files.read_write import read_whole
from teamwright.host.process.bash import describe_end, encode_script, run_script
from teamwright.host.process.capture import Capture, plain
from teamwright.host.process.environment import tool_environment
from teamwright.library.skills.book import SkillBook, Skills
from teamwright.library.skills.file import Skill
from teamwright.library.skills.text import File, RenderedSkill, Shell, render
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.spawner import Spawner
from teamwright.runtime.jobs.jobs import Job
from teamwright.runtime.permissions.grants import Grants
from teamwright.runtime.sandbox.use import ProgramRun
from teamwright.runtime.services import Services

SHELL_SECONDS = 60.0
DISK_SECONDS = 20.0
MOST_ARGS = 100_000  # bytes: what one variable of a process can hold
MOST_FILE = 100_000  # bytes of one included file
MOST_INCLUDED = 200_000  # characters of all that one call includes
REPORTED = """\
The person called {typed}, a skill that runs as an agent of its own. This is its report: a model's words, not the \
person's. The person has read it.

{said}"""

Found = TypeVar("Found")
Asked = TypeVarTuple("Asked")
Judge = Callable[[AgentId, ToolCall], Awaitable[Decision]]


class SkillContext(Struct, frozen=True, kw_only=True):
    """What the composition root supplies."""

    agent: Callable[[AgentId], Agent | None]
    ask: Judge  # the agents' gate
    clean: Callable[[str], str]  # makes text from outside safe to show
    env: Mapping[str, str]
    spawner: Callable[[], Spawner]  # for skills that run as an agent of their own
    passed: Collection[str] = ()  # variables that the person lets commands see
    services: Services | None = None  # of the session, if there is one


class Expanded(Struct, frozen=True):
    """The result of `/name words`: words for the model in its place, or an answer that needs no model."""

    content: tuple[Text, ...] = ()
    output: str | None = None
    error: str = ""  # why it failed, as the answer
    job: JobId | None = None  # it continues in the background
    model: str | None = None  # asked for by the skill, for this turn


class SkillRunner:
    def __init__(self, book: SkillBook, grants: Grants, around: SkillContext) -> None:
        self._book, self._grants, self._around = book, grants, around

    def skills(self) -> Skills:
        """The current skills."""
        return self._book.current()

    def find(self, name: str) -> Skill:
        skills = self.skills()
        bare = name.strip().removeprefix("/")
        found = skills.find(bare)
        if found is None:
            names = [skill.name for skill in skills.offered]
            near = [n for n in names if n.lower().endswith(f":{bare.lower()}")]
            few = ", ".join((near or names)[:40]) or "none"
            raise ToolError(f"There is no skill {shown(bare, 80)!r}. There are: {few}.")
        return found

    # --- called by a person

    async def expand(self, text: str, agent: AgentId) -> Expanded | None:
        """Expand `/name words`; None if it names no skill, and goes to the model as it is."""
        name, args = _parted(text)
        skill = self.skills().find(name) if name else None
        if skill is None:
            return None
        try:
            if not skill.user_invocable:
                raise ToolError(f"/{skill.name} is for the model alone: say in words what it is to do.")
            if skill.context == "fork":
                return await self._expand_fork(skill, text, args, agent)
            self._grants.give(agent, skill.allowed_tools, for_next=True)
            words = await self.text(skill, args, agent)
        except ToolError as error:
            return Expanded(error=str(error))
        return Expanded((Text(words, text),), model=skill.model)

    async def _expand_fork(self, skill: Skill, typed: str, args: str, agent: AgentId) -> Expanded:
        caller = self._caller(agent)
        nothing = Reply(Message("assistant", ()), "end_turn", Usage())
        call = CallId(f"skill-{os.urandom(6).hex()}")
        ctx = ToolContext(agent, call, caller.desk, caller.request(), nothing, caller.emit)
        job, plan, _ = await self.run_apart(skill, args, ctx, typed=True)
        if job.background:
            words = f"/{skill.name} works in the background (agent {job.id}); you are told when it ends."
            return Expanded(output="\n".join((words, *plan.notes)), job=JobId(job.id))
        said = self._around.clean(job.result.result)
        if job.status != "completed" and not said:
            raise ToolError(f"/{skill.name} ended without an answer: {job.result.error or job.status}")
        if job.result.error:
            said = f"{said}\n\n[It ended early: {job.result.error}]"
        said = "\n\n".join((said, *(f"[{note}]" for note in plan.notes)))
        await _join(caller, typed, said)
        return Expanded(output=said)

    # --- called by a person or an agent

    async def run_apart(
        self, skill: Skill, args: str, ctx: ToolContext, *, typed: bool = False
    ) -> tuple[Job, Plan, str]:
        """Run a skill with `context: fork` in an agent of its own, with a fresh context. Returns its job and its
        prompt, too. `typed`: called by a person."""
        take_back = self._grants.give(ctx.agent, skill.allowed_tools)
        try:
            prompt = await self.text(skill, args, ctx.agent)
        finally:
            take_back()
        if typed:
            prompt = await self._accepted(prompt, ctx.agent)
        self._grants.give_child(ctx.agent, ctx.call_id, skill.allowed_tools)
        ask = Ask(
            description=shown(f"skill {skill.name}", 80),
            prompt=prompt,
            kind=skill.agent or DEFAULT_KIND,
            model=skill.model,
            effort=skill.effort,
            typed=typed,
        )
        job, plan = await self._around.spawner().spawn(ask, ctx)
        assert isinstance(job, Job)  # only an agent with a name is a teammate
        return job, plan, prompt

    async def _accepted(self, prompt: str, agent: AgentId) -> str:
        """The prompt with what hooks add to it, as for one that the main agent reads. Raises ToolError if one refuses
        it."""
        services = self._around.services
        if services is None:
            return prompt
        fired = await services.points.fire("UserPromptSubmit", agent, prompt=prompt)
        if (no := fired.stop or fired.blocked) is not None:
            raise ToolError(f"A hook refused the prompt: {no}")
        return "\n\n".join((prompt, *fired.context))

    def grant(self, skill: Skill, agent: AgentId) -> None:
        """Grant the skill's allowed tools while the agent works on its current prompt."""
        self._grants.give(agent, skill.allowed_tools)

    async def judge(self, skill: Skill, called: str, agent: AgentId) -> None:
        """Apply the rules about a skill, whatever name it was called by. Raises ToolError."""
        if called != skill.name:
            decision = await self._ask(agent, SKILL, {"skill": skill.name})
            if isinstance(decision, Deny):
                raise ToolError(decision.reason)

    async def text(self, skill: Skill, args: str, agent: AgentId) -> str:
        """The whole text, with all that it includes. Raises ToolError."""
        if len(args.encode(errors="replace")) > MOST_ARGS or "\0" in args:
            raise ToolError(f"The arguments of {skill.name} are longer than {MOST_ARGS:,} bytes, or hold a NUL byte.")
        caller = self._caller(agent)
        try:
            body = await look_up(self._book.body, skill)
        except SettingsError as error:
            raise ToolError(f"The skill {skill.name} cannot be read: {error}.") from None
        wanted = render(body, args, _names(skill, caller.desk.env))
        parts: list[str] = [f"Base directory of this skill: {skill.folder}\n\n"] if skill.folder else []
        room = MOST_INCLUDED
        for part in wanted.parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            output = await self._run(part, wanted, caller) if room > 0 else _left_out(part.command)
            room -= len(output)
            parts.append(output)
        for file in wanted.files:
            found = await self._include(file, skill, caller) if room > 0 else ""
            room -= len(found)
            parts.append(found)
        return "".join(parts).strip("\n")

    def _caller(self, agent: AgentId) -> Agent:
        found = self._around.agent(agent)
        if found is None:
            raise ToolError("The agent that called this skill has ended.")
        return found

    async def _ask(self, agent: AgentId, tool: str, args: dict[str, str]) -> Decision:
        call = ToolCall(CallId(f"skill-{os.urandom(6).hex()}"), tool, Raw(msgspec.json.encode(args)))
        decision = await self._around.ask(agent, call)
        if isinstance(decision, Deny) and decision.interrupt:
            raise ToolError(decision.reason)
        return decision

    # --- `!` and `@`

    async def _run(self, part: Shell, wanted: RenderedSkill, caller: Agent) -> str:
        command = shown(part.command, 200)
        if BASH not in caller.tools:
            return f"[not run: {command}: this agent has no Bash]"
        decision = await self._ask(caller.id, BASH, {"command": part.command, "description": "included by a skill"})
        if isinstance(decision, Deny):
            return f"[not run: {command}: {decision.reason}]"
        changed = (decision.args or {}).get("command", part.command)
        try:
            script = encode_script(changed if isinstance(changed, str) else part.command)
        except ToolError as error:
            return f"[not run: {command}: {error}]"
        around, desk = self._around, caller.desk
        env = tool_environment(around.env, desk.env | wanted.variables, around.passed)
        capture = Capture(desk.spill / f"skill-{os.urandom(6).hex()}.txt" if desk.spill else None)
        cwd = desk.cwd if is_directory(desk.cwd) else desk.roots[0]
        call = CallId(f"skill-{os.urandom(6).hex()}")
        run = ProgramRun(around.services, caller.id, call, desk, decision.fence, part.command, env)
        async with run.place() as place:
            ended, _ = await run_script(
                script, cwd=cwd, env=place.env, limit=SHELL_SECONDS, capture=capture, box=place.box
            )

        def clean(text: str) -> str:
            return around.clean(plain(text))

        output = capture.text(clean).strip("\n")
        words, _ = describe_end(ended, SHELL_SECONDS)
        return output if not words else f"{output}\n[{command}: {words}]".lstrip("\n")

    async def _include(self, file: File, skill: Skill, caller: Agent) -> str:
        """The file as text to append; empty if the words name no file. If it cannot be read, the text says so."""
        path = await look_up(find_file, file.choices, caller.desk.cwd, skill.folder)
        if path is None:
            return ""
        name = shown(path, 500).replace('"', "'")
        if READ not in caller.tools:
            return f"\n\n[{name} is not included: this agent has no Read]"
        try:
            decision = await self._ask(caller.id, READ, {"file_path": path})
            if isinstance(decision, Deny):
                return f"\n\n[{name} is not included: {decision.reason}]"
            text = await look_up(read_judged, path, decision)
        except ToolError as error:
            return f"\n\n[{name} is not included: {error}]"
        text = self._around.clean(text).rstrip("\n").replace("</file", "<\\/file")  # it must not close its own frame
        return f'\n\n<file path="{name}">\n{text}\n</file>'


async def look_up(look: Callable[[*Asked], Found], *asked: *Asked) -> Found:
    """Run something that only reads in a thread: a file system that does not answer costs a thread, not the agent."""
    try:
        with anyio.fail_after(DISK_SECONDS):
            return await to_thread.run_sync(look, *asked, abandon_on_cancel=True)
    except TimeoutError:
        raise ToolError(f"The file system did not answer within {DISK_SECONDS:g} s.") from None


async def _join(caller: Agent, typed: str, said: str) -> None:
    """What a skill of its own context reports is read with the next prompt, or by the turn that runs."""
    content = (Text(REPORTED.format(typed=neutral(typed), said=neutral(said)), typed),)
    if not await caller.hear(Message("user", content)):
        await caller.inbox.post(Letter(new_letter_id(), caller.id, PERSON, Prompt(content)))


def _parted(text: str) -> tuple[str, str]:
    """The name and the words after it; no name if the text is no command."""
    if not text.startswith("/") or text[1:2].isspace():
        return "", ""
    name = text[1:].split(maxsplit=1)[:1]
    return (name[0], text[1 + len(name[0]) :].strip()) if name else ("", "")


def _left_out(command: str) -> str:
    return f"[not run: {shown(command, 200)}: this skill has included more than {MOST_INCLUDED:,} characters]"


def find_file(choices: Sequence[str], cwd: Path, folder: str) -> str | None:
    """The first choice that exists, in the working directory, then in the skill's own. Directories do not count."""
    for choice in choices:
        for base in (cwd, Path(folder) if folder else None):
            path = None if base is None else os.path.join(base, os.path.expanduser(choice))  # noqa: PTH111, PTH118
            if path is not None and "\0" not in path and os.path.lexists(path) and not is_directory(Path(path)):
                return path
    return None


def read_judged(path: str, decision: Allow) -> str:
    """Read exactly the file that was judged."""
    real = decision.paths.get(path)
    if real is None:
        raise ToolError("it was not judged by its path; Read it instead")
    try:
        content, _ = read_whole(Path(real), MOST_FILE)
    except FileNotFoundError:
        raise ToolError("it is not there any more") from None
    if b"\0" in content:
        raise ToolError("it is no text; Read shows what can be shown of it")
    return content.decode("utf-8-sig", errors="replace")


def _names(skill: Skill, env: Mapping[str, str]) -> dict[str, str]:
    names = {"CLAUDE_SESSION_ID": env.get("TEAMWRIGHT_PARENT_SESSION_ID", "")}
    places = {"CLAUDE_SKILL_DIR": skill.folder, "CLAUDE_PLUGIN_ROOT": skill.root}
    return names | {name: place for name, place in places.items() if place}
