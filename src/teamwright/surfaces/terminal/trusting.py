"""Asks at the start whether the directory is trusted: once, and again when there is something new to run."""

from functools import partial

from anyio import to_thread

from teamwright.app import Options
from teamwright.surfaces.port.trust_question import open_question, remember
from teamwright.surfaces.terminal.dialogs.trust_screen import TrustScreen
from teamwright.surfaces.terminal.starting import StartApp


async def settle_trust(options: Options, theme: str) -> bool:
    """Ask if necessary, and remember the answer; False if the person left without one. Nothing of the directory was
    obeyed yet."""
    asked = await to_thread.run_sync(open_question, options)
    if asked is None:
        return True
    answer = await StartApp(TrustScreen(asked.found), theme).run_async()
    if answer is not None:
        await to_thread.run_sync(partial(remember, asked, trusted=answer))
    return answer is not None
