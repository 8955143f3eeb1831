"""The system prompts of a session's agents, from what is known of the session when they are made."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.core.permissions.consent import Mode
from teamwright.core.permissions.judge import mode_allowed
from teamwright.host.git.now import in_words
from teamwright.library import instructions
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.prompt import (
    COORDINATE,
    LEAN_WORK,
    WORK,
    Surroundings,
    audience,
    changed_facts,
    permission_words,
    reader,
    system_prompt,
)

if TYPE_CHECKING:
    from teamwright.app.agent_registry import AgentRegistry
    from teamwright.app.services import Services


def main_system(services: "Services", model: str, mode: Mode) -> tuple[str, ...]:
    registry = services.registry
    definition = registry.main_definition
    if definition is not None:
        role = definition.prompt
    else:
        own = services.options.system_prompt
        role = own if own is not None else _role(registry)
    told = services.extensions.told(definition) if definition else ()
    return (*system_of(services, model, services.workspace.cwd, role=role, mode=mode, main=True), *told)


def _role(registry: "AgentRegistry") -> str:
    if registry.features.coordinator:
        return COORDINATE
    return LEAN_WORK if registry.lean else WORK


def news_of(services: "Services", main: Agent) -> str:
    """What is not as the main agent was told before, in its prompt or since; empty if all is. The prompt stays."""
    if services.options.system_prompt is not None:
        return ""
    since = (message.text for message in reversed(main.history.messages) if message.role == "user")
    allowed = permissions_of(services, main.mode or "default")
    return changed_facts("\n".join(main.prompt.system), since, _reader(services), allowed)


def _reader(services: "Services") -> str:
    return reader(person=services.options.interactive, asked=_is_asked(services))


def _is_asked(services: "Services") -> bool:
    return bool(services.options.can_ask or services.answer)


def permissions_of(services: "Services", mode: Mode) -> str:
    """What an agent in this mode is told of what it may do."""
    return permission_words(mode, [str(rule) for rule in services.rules.rules.allow], asked=_is_asked(services))


def mode_here(services: "Services", own: Mode | None) -> Mode:
    """The session's, or what an agent's own makes of it."""
    return mode_allowed(services.mode, own) if own else services.mode


def system_of(
    services: "Services", model: str, cwd: Path, *, role: str, mode: Mode, main: bool = False
) -> tuple[str, ...]:
    workspace, options = services.workspace, services.options
    found = instructions.collect(
        cwd,
        workspace.project,
        home=workspace.user,
        state=workspace.home.root,
        trusted=workspace.trusted,
        sources=options.setting_sources,
    )
    place = Surroundings(
        str(cwd),
        _platform(),
        time.strftime("%Y-%m-%d"),
        model,
        git=_git(services, main=main),
        directories=tuple(map(str, roots_of(services)[1:])),
        permissions=permissions_of(services, mode),
    )
    if not main:
        return system_prompt(place, instructions.render(found), role=role)
    services.notes.extend(found.problems)
    told = "\n\n".join(filter(None, (instructions.render(found), _earlier_notes(services))))
    bare = options.system_prompt is not None
    append = options.append_system_prompt
    return system_prompt(place, told, role=role, work_for=audience(_reader(services)), append=append, bare=bare)


def _git(services: "Services", *, main: bool) -> str:
    """The subjects of commits are somebody's words: those of a directory that is not trusted stay out of the prompt.

    Other agents begin later, when much may have changed.
    """
    if services.git and main:
        return in_words(services.git, commits=services.workspace.trusted)
    return "a git repository" if (services.workspace.project / ".git").exists() else ""


def _earlier_notes(services: "Services") -> str:
    """What earlier sessions noted; empty unless it is wanted."""
    if not services.workspace.settings.own.session_memory:
        return ""
    from teamwright.core.errors import StoreError  # noqa: PLC0415
    from teamwright.core.policies import notes  # noqa: PLC0415
    from teamwright.store.files.memories import Notebook  # noqa: PLC0415

    try:
        return notes.for_prompt(Notebook(services.workspace.home, services.workspace.project).read())
    except StoreError as error:
        services.notes.append(f"the notes of earlier sessions were left out: {error}")
        return ""


def _platform() -> str:
    """Without the program that `platform.platform` starts for it."""
    system = os.uname()
    return f"{system.sysname} {system.release} {system.machine}"


def roots_of(services: "Services") -> tuple[Path, ...]:
    workspace = services.workspace
    named = (workspace.cwd / directory for directory in services.options.add_dirs)
    more = (*named, *workspace.settings.permissions.additional_directories)
    return tuple(dict.fromkeys((workspace.cwd, *(d.resolve() for d in more if d.is_dir()))))
