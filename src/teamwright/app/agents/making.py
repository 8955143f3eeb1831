"""Makes the factory of every agent of a session, from its services."""

from functools import partial
from typing import TYPE_CHECKING

from anyio import Semaphore

from teamwright.app.agents.prompts import recall
from teamwright.runtime.agents.compactor import Windows
from teamwright.runtime.agents.factory import AgentFactory
from teamwright.store.files.transcripts import Transcript
from teamwright.store.tables.state import now_ms

if TYPE_CHECKING:
    from teamwright.app.services import Services


def make_agents(services: "Services") -> AgentFactory:
    models, store, own = services.models, services.store, services.workspace.own
    state, space = store.state, store.space
    said = services.workspace.env.get("TEAMWRIGHT_MAX_AGENTS", "")
    keeps = services.options.keep_files or services.sandbox_setup is not None
    return AgentFactory(
        services=services,
        session=store.session,
        files=store.files,
        home=store.home or services.workspace.home,
        bus=services.bus,
        state=state,
        model=models.routed,
        gate=services.judge,
        around=services.points,
        keeper=services.open_keeper() if keeps else None,
        slots=Semaphore(int(said) if said else own.max_agents, fast_acquire=True),
        now=now_ms,
        log=services.log,
        debug=services.log if services.options.debug else None,
        facts=partial(recall, services),
        trouble=services.trouble,
        windows=Windows(models.window, models.routed.window),
        letter_room=models.letter_room,
        fallback=models.fallback,
        transcripts=space.transcripts if space else Transcript,
        fetch=space.fetch if space else None,
    )
