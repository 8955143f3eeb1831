"""The runtime's own questions, as the settings switch them on: nothing leaves that nobody asked for otherwise."""

import time
from collections.abc import Callable

from teamwright.app.options import Options
from teamwright.app.workspace import Workspace, without_keys
from teamwright.core.data.event import Event
from teamwright.core.errors import StoreError
from teamwright.core.policies import notes
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.jobs.jobs import Tell
from teamwright.runtime.side_questions.memory import Memory
from teamwright.runtime.side_questions.service import Habits, SideQuestions
from teamwright.runtime.side_questions.summaries import Summaries
from teamwright.store.files.memories import Notebook


def open_asides(
    options: Options, ground: Workspace, main: Agent, supervisor: Supervisor, tell: Tell, log: Callable[[str], None]
) -> SideQuestions:
    """Hear what the agents do, and act on it where a setting says so."""
    own = ground.settings.own
    if own.agent_summaries:
        supervisor.summaries = Summaries(own.summary_seconds, supervisor.launch, tell, log)
    lasting = options.can_ask or options.assistant or own.assistant or options.proactive
    habits = Habits(
        suggest=own.prompt_suggestions,
        notes_every=own.memory_turns if own.session_memory else None,
        consolidate_after=own.consolidate_seconds if own.consolidate_memory and lasting else None,
    )
    memory = Memory(
        Notebook(ground.home, ground.project),
        lambda text: without_keys(ground, text),
        lambda: time.strftime("%Y-%m-%d"),
    )
    asides = SideQuestions(
        main,
        habits,
        memory,
        launch=supervisor.launch,
        tell=tell,
        log=log,
        jobs_run=lambda: bool(supervisor.jobs.running()),
    )
    main.on_event = _both(main.on_event, asides.heard)
    return asides


def _both(first: Callable[[Event], None] | None, second: Callable[[Event], None]) -> Callable[[Event], None]:
    """Somebody else may hear the main agent already."""
    if first is None:
        return second

    def heard(event: Event) -> None:
        first(event)
        second(event)

    return heard


def earlier_notes(ground: Workspace, problems: list[str]) -> str:
    """What earlier sessions noted, for the system prompt; empty unless it is wanted."""
    if not ground.settings.own.session_memory:
        return ""
    try:
        return notes.for_prompt(Notebook(ground.home, ground.project).read())
    except StoreError as error:
        problems.append(f"the notes of earlier sessions were left out: {error}")
        return ""
