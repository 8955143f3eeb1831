"""Greeting on the screen before the first prompt."""

from teamwright import __version__
from teamwright.runtime.port import SessionFacts
from teamwright.surfaces.terminal.widgets.status import MODES
from teamwright.surfaces.view.text import safe


def greeting(facts: SessionFacts, home: str) -> str:
    where = f"~{facts.cwd.removeprefix(home)}" if home and f"{facts.cwd}/".startswith(f"{home}/") else facts.cwd
    mode = MODES.get(facts.mode, facts.mode)
    return "\n".join(
        [
            f"Teamwright {__version__} · {facts.model} · mode: {mode} (Shift+Tab)",
            safe(where),
            "",
            "Describe a task. For larger work, ask for a team.",
            "/help lists commands, /keys all keys. F2 shows agents, tasks and mail.",
        ]
    )
