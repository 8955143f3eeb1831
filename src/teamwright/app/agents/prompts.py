"""System prompts of a session's agents, from what is known of the session when they are made."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from teamwright.core.data.message import ToolSpec
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Mode
from teamwright.core.ports import Desk
from teamwright.core.text import neutral, shown
from teamwright.library import instructions
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.prompt import (
    COORDINATE,
    LEAN_WORK,
    WORK,
    Powers,
    Seat,
    Surroundings,
    audience,
    changed_facts,
    permission_words,
    reader,
    system_prompt,
)

if TYPE_CHECKING:
    from teamwright.app.services import Services


_MOST_END = 1_000  # characters that the settings may add to a commit message
_SYSTEM = os.uname()
_PLATFORM = f"{_SYSTEM.sysname} {_SYSTEM.release} {_SYSTEM.machine}"  # `platform` would start a program for it


def main_system(services: "Services", model: str, mode: Mode, tools: tuple[ToolSpec, ...]) -> tuple[str, ...]:
    registry = services.registry
    definition = registry.main_definition
    workspace, options, told = services.workspace, services.options, ()
    if definition is not None:
        role, told = definition.prompt, services.extensions.told(definition)
    elif options.system_prompt is not None:
        role = options.system_prompt
    else:
        role = COORDINATE if registry.features.coordinator else LEAN_WORK if registry.lean else WORK
        role = _styled(services, role) if workspace.settings.output_style else role
    seat = Seat(workspace.cwd, model, mode, tools, told)
    work_for = audience(reader(person=options.interactive, asked=services.asked))
    append = options.append_system_prompt
    return system_of(services, seat, role, work_for=work_for, append=append, main=True)


def _styled(services: "Services", role: str) -> str:
    """The role with the output style of the settings, or replaced by it."""
    workspace = services.workspace
    from teamwright.library.claude.output_styles import StyleFault, find_style  # noqa: PLC0415

    near = [workspace.project / name for name in (".teamwright", ".claude")] if workspace.trusted else []
    homes = [*near, workspace.home.root, workspace.user / ".claude"]
    try:
        style = find_style(workspace.settings.output_style or "", [home / "output-styles" for home in homes])
    except StyleFault as fault:
        services.notes.append(str(fault))
        return role
    if style is None or not style.text:
        return role
    return f"{role}\n\n{style.text}" if style.keeps else style.text


def _wishes(services: "Services", *, main: bool) -> str:
    """Small things that the settings ask for: a language, and the last lines of commits and pull requests."""
    settings = services.workspace.settings
    end = settings.attribution
    lines = [f"Answer the person in {shown(settings.language, 60)}." if main and settings.language else ""]
    lines += [f"End each commit message that you write with this:\n{end.commit[:_MOST_END]}" if end.commit else ""]
    lines += [f"End each description of a pull request with this:\n{end.pr[:_MOST_END]}" if end.pr else ""]
    return "\n".join(filter(None, lines))


def news_of(services: "Services", main: Agent) -> str:
    """What has changed since the main agent was last told, in its prompt or later; empty if nothing has. The prompt
    stays."""
    if services.options.system_prompt is not None:
        return ""
    since = (message.text for message in reversed(main.history.messages) if message.role == "user")
    allowed = permissions_of(services, main.mode or "default", main.prompt.tools)
    reads = reader(person=services.options.interactive, asked=services.asked)
    return changed_facts("\n".join(main.prompt.system), since, reads, allowed)


def permissions_of(services: "Services", mode: Mode, tools: Sequence[ToolSpec]) -> str:
    """What an agent in this mode with these tools is told about its permissions."""
    names = [name for spec in tools for name in (spec.name, *spec.behind)]
    powers = Powers(mode, names, services.rules.rules.allow, asked=services.asked)
    setup, fence = services.sandbox_setup, services.sandbox
    if setup is None or fence is None or (words := setup.words) is None:
        return permission_words(powers)
    fencing = fence.fencing(services.main, Desk(services.workspace.cwd, roots_of(services)), mode)
    if not fencing.auto_allow or fencing.unheld:
        return permission_words(powers)
    reach = replace(words, asks=words.asks and mode != "dontAsk").reach()
    return permission_words(replace(powers, reach=reach, outside=fencing.rules.excluded, leaves=setup.leaves))


def mode_here(services: "Services", own: Mode | None) -> Mode:
    """The session's mode, narrowed by an agent's own."""
    if not own:
        return services.mode
    from teamwright.core.permissions.consent import mode_allowed  # noqa: PLC0415

    return mode_allowed(services.mode, own)


def system_of(
    services: "Services", seat: Seat, role: str, *, work_for: str = "", append: str = "", main: bool = False
) -> tuple[str, ...]:
    workspace, options = services.workspace, services.options
    found = instructions.collect(
        seat.cwd,
        workspace.project,
        home=workspace.user,
        state=workspace.home.root,
        trusted=workspace.trusted,
        sources=options.setting_sources,
        above=not options.hosted,  # there, what is above the repository belongs to another person
    )
    told = [work_for, options.instructions, instructions.render(found, seat.cwd) if found.files else ""]
    told += [_wishes(services, main=main)] if workspace.settings.layers else []
    if main:
        services.notes.extend(found.problems)
        told += [_earlier_notes(services)] if workspace.own.session_memory else []
    told += [*seat.told, append]
    if main and options.system_prompt is not None:
        return system_prompt(None, role, *told[1:])
    place = Surroundings(
        str(seat.cwd),
        _PLATFORM,
        time.strftime("%Y-%m-%d, %H:%M %Z when you began" if main else "%Y-%m-%d"),
        seat.model,
        git=_git(services, main=main) if services.git or (workspace.project / ".git").exists() else "",
        directories=tuple(map(str, roots_of(services)[1:])),
        permissions=permissions_of(services, seat.mode, seat.tools),
        here=seat.here,
    )
    return system_prompt(place, role, *told)


def _git(services: "Services", *, main: bool) -> str:
    """Subjects of commits are somebody's words, so those of an untrusted directory stay out of the prompt.

    Only the main agent is told of the state: others begin later, when much may have changed.
    """
    if services.git and main:
        from teamwright.host.git.now import in_words  # noqa: PLC0415

        return in_words(services.git, commits=services.workspace.trusted)
    return "a git repository" if (services.workspace.project / ".git").exists() else ""


def _earlier_notes(services: "Services") -> str:
    """The notes of earlier sessions."""
    workspace = services.workspace
    from teamwright.core.errors import StoreError  # noqa: PLC0415
    from teamwright.core.policies import notes  # noqa: PLC0415
    from teamwright.store.files.memories import Notebook  # noqa: PLC0415

    try:
        return notes.for_prompt(Notebook(workspace.home, workspace.project).read())
    except StoreError as error:
        services.notes.append(f"the notes of earlier sessions were left out: {error}")
        return ""


def roots_of(services: "Services") -> tuple[Path, ...]:
    workspace, settings = services.workspace, services.workspace.settings
    named = (workspace.cwd / directory for directory in services.options.add_dirs)
    more = (*named, *settings.permissions.additional_directories)
    return tuple(dict.fromkeys((workspace.cwd, *(d.resolve() for d in more if d.is_dir()))))


async def recall(services: "Services", agent: AgentId) -> list[str]:
    """What an agent must still know after its conversation was shortened."""
    jobs = services.jobs.unfinished(agent)
    running = [f"Still at work for you: {neutral(j.description)} ({j.kind} {j.id})" for j in jobs]
    return [*running, *await services.teams.recall(agent)]
