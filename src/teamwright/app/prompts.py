"""The system prompts of a session's agents, from what is known of the session when they are made."""

import os
import time
from pathlib import Path

from teamwright.app.asides import earlier_notes
from teamwright.app.parts import Parts
from teamwright.core.permissions.consent import Mode
from teamwright.core.permissions.judge import mode_allowed
from teamwright.host.git.now import in_words
from teamwright.library import instructions
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.prompt import (
    COORDINATE,
    WORK,
    Surroundings,
    audience,
    changed_facts,
    permission_words,
    reader,
    system_prompt,
)
from teamwright.runtime.agents.supervisor import Supervisor


def main_system(parts: Parts, model: str, mode: Mode) -> tuple[str, ...]:
    definition, company = parts.company.main_definition, parts.company
    if definition is not None:
        role = definition.prompt
    else:
        own = parts.options.system_prompt
        role = own if own is not None else COORDINATE if company.features.coordinator else WORK
    told = company.extras.told(definition) if definition else ()
    return (*system_of(parts, model, parts.ground.cwd, role=role, mode=mode, main=True), *told)


def news_of(parts: Parts, main: Agent) -> str:
    """What is not as the main agent was told before, in its prompt or since; empty if all is. The prompt stays."""
    if parts.options.system_prompt is not None:
        return ""
    since = (message.text for message in reversed(main.history.messages) if message.role == "user")
    allowed = permissions_of(parts, main.mode or "default")
    return changed_facts("\n".join(main.prompt.system), since, _reader(parts), allowed)


def _reader(parts: Parts) -> str:
    return reader(person=parts.options.interactive, asked=_is_asked(parts))


def _is_asked(parts: Parts) -> bool:
    return bool(parts.options.can_ask or parts.options.answer)


def permissions_of(parts: Parts, mode: Mode) -> str:
    """What an agent in this mode is told of what it may do."""
    return permission_words(mode, [str(rule) for rule in parts.rules.rules.allow], asked=_is_asked(parts))


def mode_here(parts: Parts, supervisor: Supervisor, own: Mode | None) -> Mode:
    """The session's, or what an agent's own makes of it."""
    session = parts.mode or supervisor.main.mode or "default"
    return mode_allowed(session, own) if own else session


def system_of(parts: Parts, model: str, cwd: Path, *, role: str, mode: Mode, main: bool = False) -> tuple[str, ...]:
    ground, options = parts.ground, parts.options
    found = instructions.collect(
        cwd,
        ground.project,
        home=ground.user,
        state=ground.home.root,
        trusted=ground.trusted,
        sources=options.setting_sources,
    )
    place = Surroundings(
        str(cwd),
        _platform(),
        time.strftime("%Y-%m-%d"),
        model,
        git=_git(parts, main=main),
        directories=tuple(map(str, roots_of(parts)[1:])),
        permissions=permissions_of(parts, mode),
    )
    if not main:
        return system_prompt(place, instructions.render(found), role=role)
    parts.notes.extend(found.problems)
    told = "\n\n".join(filter(None, (instructions.render(found), earlier_notes(ground, parts.notes))))
    bare = options.system_prompt is not None
    append = options.append_system_prompt
    return system_prompt(place, told, role=role, work_for=audience(_reader(parts)), append=append, bare=bare)


def _git(parts: Parts, *, main: bool) -> str:
    """The subjects of commits are somebody's words: those of a directory that is not trusted stay out of the prompt.

    Other agents begin later, when much may have changed.
    """
    if parts.git and main:
        return in_words(parts.git, commits=parts.ground.trusted)
    return "a git repository" if (parts.ground.project / ".git").exists() else ""


def _platform() -> str:
    """Without the program that `platform.platform` starts for it."""
    system = os.uname()
    return f"{system.sysname} {system.release} {system.machine}"


def roots_of(parts: Parts) -> tuple[Path, ...]:
    ground = parts.ground
    more = (*(ground.cwd / d for d in parts.options.add_dirs), *ground.settings.permissions.additional_directories)
    return tuple(dict.fromkeys((ground.cwd, *(d.resolve() for d in more if d.is_dir()))))
