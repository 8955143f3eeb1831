"""What a process of a session has opened, and what its agents are given: prompt, directories, limits."""

import os
import time
from pathlib import Path

from msgspec import Struct, field

from teamwright.app.asides import earlier_notes
from teamwright.app.company import Company
from teamwright.app.ground import Ground
from teamwright.app.naming import Names
from teamwright.app.options import Options
from teamwright.core.budget import Limits
from teamwright.core.consent import Mode
from teamwright.core.ports import Desk
from teamwright.host.near import is_near
from teamwright.library import instructions
from teamwright.models.routed import RoutedModel
from teamwright.runtime.prompt import Place, system_prompt
from teamwright.runtime.resume import Opened
from teamwright.runtime.rulebook import Rulebook
from teamwright.store.settings_schema import Settings
from teamwright.store.state import State, now_ms


class Parts(Struct, kw_only=True):
    """What has been opened so far."""

    options: Options
    ground: Ground
    rules: Rulebook
    models: RoutedModel
    names: Names
    company: Company
    opened: Opened
    state: State
    notes: list[str]
    mode: Mode | None = None  # the session's, where the main agent does not live here
    since: int = field(default_factory=now_ms)  # when the lead's process began


def system_of(parts: Parts, model: str, cwd: Path, *, own: str | None, main: bool = False) -> tuple[str, ...]:
    ground, options = parts.ground, parts.options
    found = instructions.collect(
        cwd, ground.project, home=ground.user, state=ground.home.root, trusted=ground.trusted,
        sources=options.setting_sources,
    )  # fmt: skip
    place = Place(
        str(cwd), platform_words(), time.strftime("%Y-%m-%d"), model,
        git=(ground.project / ".git").exists(), directories=tuple(map(str, roots_of(parts)[1:])),
    )  # fmt: skip
    if main:
        parts.notes.extend(found.problems)
    append = options.append_system_prompt if main else ""
    noted = earlier_notes(ground, parts.notes) if main else ""
    told = "\n\n".join(filter(None, (instructions.render(found), noted)))
    return system_prompt(place, told, own=own, append=append, bare=main and options.system_prompt is not None)


def platform_words() -> str:
    """Without the program that `platform.platform` starts for it."""
    system = os.uname()
    return f"{system.sysname} {system.release} {system.machine}"


def build_limits(limits: Limits, settings: Settings) -> Limits:
    """The command line's, else the settings'."""
    budget = settings.own.budget
    usd = budget.usd if limits.usd is None else limits.usd
    return Limits(limits.turns, usd, limits.tokens or budget.tokens, limits.seconds or budget.seconds)


def roots_of(parts: Parts) -> tuple[Path, ...]:
    ground = parts.ground
    more = (*(ground.cwd / d for d in parts.options.add_dirs), *ground.settings.permissions.additional_directories)
    return tuple(dict.fromkeys((ground.cwd, *(d.resolve() for d in more if d.is_dir()))))


def build_desk(parts: Parts) -> Desk:
    opened, roots = parts.opened, roots_of(parts)
    kept = Path(opened.history.cwd)
    cwd = kept if kept.is_dir() and any(kept.is_relative_to(root) for root in roots) else parts.ground.cwd
    env = {"TEAMWRIGHT_AGENT_ID": opened.id, "TEAMWRIGHT_AGENT_NAME": "main", "TEAMWRIGHT_PARENT_SESSION_ID": opened.id}
    near = all(is_near(root) for root in roots)
    return Desk(cwd, roots, dict(opened.history.seen), opened.files.outputs, parts.rules.hides, near=near, env=env)
