"""The command that continues a session."""

import shlex

from teamwright.core.ids import SessionId


def resume_command(session: SessionId, engine: str | None = None) -> str:
    """To be pasted into a shell. `engine`: as the option gave it; the environment and settings still say it by
    themselves."""
    return shlex.join(["teamwright", "--resume", session, *(["--engine", _shown(engine)] if engine else [])])


def _shown(engine: str) -> str:
    """A password is left out, so that no screen or log keeps it; where it stood is seen."""
    if engine.startswith("@"):
        return engine
    from teamwright.store.engine.wire.address import read_address  # noqa: PLC0415  # most sessions have no engine

    address = read_address(engine)
    return str(address).replace("://", "://USER:PASSWORD@", 1) if address.user else engine.strip()
