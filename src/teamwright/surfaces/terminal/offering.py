"""Offers the sandbox at the first start with a usable one, before a session is open, so that a yes already counts."""

from functools import partial

from anyio import to_thread

from teamwright.app import Options
from teamwright.app.sandbox import answer_offer, offered_tier
from teamwright.core.errors import TeamwrightError
from teamwright.surfaces.terminal.dialogs.offer_screen import OfferScreen
from teamwright.surfaces.terminal.starting import StartApp


async def settle_sandbox(options: Options, theme: str) -> str | None:
    """Ask if nobody has decided yet, and remember the answer. Returns what the person must know, perhaps nothing; None
    if they left without an answer."""
    tier = await to_thread.run_sync(offered_tier, options)
    if not tier:
        return ""
    answer = await StartApp(OfferScreen(tier), theme).run_async()
    try:
        if answer in ("yes", "no"):
            await to_thread.run_sync(partial(answer_offer, options, on=answer == "yes"))
    except TeamwrightError as error:
        return f"your answer about the sandbox could not be kept, so it is as it was: {error}"
    return None if answer is None else ""
