"""The question at the start: is this directory trusted? Asked once, and again when there is something new to run."""

from typing import ClassVar

from anyio import to_thread
from textual.app import App
from textual.binding import Binding, BindingType

from teamwright.app import Options, survey
from teamwright.library import trust
from teamwright.library.trust import Found
from teamwright.surfaces.terminal.choices import GRACE
from teamwright.surfaces.terminal.dialogs import TrustScreen
from teamwright.surfaces.terminal.themes import themes


def open_question(options: Options) -> Found | None:
    """What an untrusted directory would run; None if there is nothing to ask. Blocks."""
    ground = survey(options)
    if ground.trusted:
        return None
    found = trust.what_would_run(ground.project)
    anything = trust.untrusted_line(found) is not None
    return found if anything and not trust.is_declined(found, state=ground.home.root) else None


class TrustApp(App[bool]):
    """Nothing but the question: no session is open yet, and nothing of the directory has been obeyed."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,ctrl+d", "quit", "Leave", priority=True)]

    def __init__(self, found: Found, theme: str, *, grace: float = GRACE) -> None:
        super().__init__()
        self._found, self._named, self._grace = found, theme, grace

    def on_mount(self) -> None:
        for theme in themes():
            self.register_theme(theme)
        self.theme = f"tw-{self._named}"
        self.push_screen(TrustScreen(self._found, grace=self._grace), self._answered)

    def _answered(self, trusted: bool | None) -> None:  # noqa: FBT001 -- Textual calls it so
        self.exit(bool(trusted))


async def settle_trust(options: Options, theme: str) -> bool:
    """Ask if it must be asked, and remember the answer; False if the person left without one."""
    found = await to_thread.run_sync(open_question, options)
    if found is None:
        return True
    answer = await TrustApp(found, theme).run_async()
    if answer is not None:
        await to_thread.run_sync(lambda: remember(options, found, trusted=answer))
    return answer is not None


def remember(options: Options, found: Found, *, trusted: bool) -> None:
    state = survey(options).home.root
    if trusted:
        trust.trust(found.project, state=state)
    else:
        trust.decline(found, state=state)
