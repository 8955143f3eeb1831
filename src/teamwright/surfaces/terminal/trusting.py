"""Asks at the start whether the directory is trusted: once, and again when there is something new to run."""

from functools import partial
from pathlib import Path
from typing import ClassVar

from anyio import to_thread
from msgspec import Struct
from textual.app import App
from textual.binding import Binding, BindingType

from teamwright.app import Options, open_workspace
from teamwright.app.workspace import look_around
from teamwright.library.trust import decision as trust
from teamwright.library.trust import snapshot as agreed
from teamwright.library.trust.decision import TrustContents
from teamwright.library.trust.snapshot import TrustedFile
from teamwright.surfaces.terminal.dialogs.trust_screen import TrustScreen
from teamwright.surfaces.terminal.render.themes import themes
from teamwright.surfaces.terminal.widgets.choices import GRACE


class TrustAnswer(Struct, frozen=True):
    """What the person is shown, and the files as they are at that moment."""

    found: TrustContents
    files: dict[str, TrustedFile]
    state: Path


def open_question(options: Options) -> TrustAnswer | None:
    """What an untrusted directory would run; None if there is nothing to ask. Blocks."""
    ground = open_workspace(options)
    state = ground.home.root
    if ground.trusted:
        if trust.is_trusted(ground.project, state=state) and not agreed.is_recorded(ground.project, state=state):
            agreed.agree(ground.project, look_around(ground)[1], state=state)  # trusted long ago
        return None
    found, files = look_around(ground)
    anything = found.parts or trust.untrusted_line(found) is not None
    return TrustAnswer(found, files, state) if anything and not trust.is_declined(found, state=state) else None


class TrustApp(App[bool]):
    """Nothing but the question: no session is open yet, and nothing of the directory has been obeyed."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,ctrl+d", "quit", "Leave", priority=True)]

    def __init__(self, found: TrustContents, theme: str, *, grace: float = GRACE) -> None:
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
    asked = await to_thread.run_sync(open_question, options)
    if asked is None:
        return True
    answer = await TrustApp(asked.found, theme).run_async()
    if answer is not None:
        await to_thread.run_sync(partial(remember, asked, trusted=answer))
    return answer is not None


def remember(asked: TrustAnswer, *, trusted: bool) -> None:
    """Only what was shown is recorded: a change in the meantime is asked about at the next start."""
    if trusted:
        agreed.agree(asked.found.project, asked.files, state=asked.state)
        trust.trust(asked.found.project, state=asked.state)
    else:
        trust.decline(asked.found, state=asked.state)
