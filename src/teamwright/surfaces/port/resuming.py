"""The command that continues a session."""

import shlex

from teamwright.core.ids import SessionId


def resume_command(session: SessionId, engine: str | None = None) -> str:
    """A command to paste into a shell. `engine` is as the option gave it; environment and settings still apply then."""
    return shlex.join(["teamwright", "--resume", session, *(["--engine", _shown(engine)] if engine else [])])


def _shown(engine: str) -> str:
    """The engine without its password, so that no screen or log keeps it; a mark shows where it was."""
    if engine.startswith("@"):
        return engine
    from teamwright.store.engine.wire.address import read_address  # noqa: PLC0415  # most sessions have no engine

    address = read_address(engine)
    return str(address).replace("://", "://USER:PASSWORD@", 1) if address.user else engine.strip()
