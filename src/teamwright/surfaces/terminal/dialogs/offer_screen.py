"""Dialog that offers the sandbox: what it would do, what would not work, and how to undo it."""

from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from teamwright.surfaces.terminal.dialogs.base import BOX
from teamwright.surfaces.terminal.widgets.choices import GRACE, Choice, Choices
from teamwright.surfaces.terminal.widgets.rows import palette_of

OfferAnswer = Literal["yes", "no", "later"]

_HOSTS = {"landlock": "have no network"}  # other tiers reach hosts through a proxy
_UNDO = "asked once · /sandbox on or off changes it later"


def offered(tier: str) -> str:
    """What the sandbox would mean here, one line per point."""
    hosts = _HOSTS.get(tier, "reach only hosts that you allow")
    return (
        "Commands of agents would\n"
        "• write only in your working directories and their tmp\n"
        f"• not see your keys, and {hosts}\n"
        "• run without asking; outside of it, they need your approval\n"
        "\n"
        "Docker, sudo and ssh agents do not work inside. You can name commands that always run outside."
    )


class OfferScreen(ModalScreen[OfferAnswer]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('later')", "Not now")]
    DEFAULT_CSS = f"""
    OfferScreen {{
        align: center bottom;
        & > Vertical {{
            height: auto; max-height: 100%; width: 100%; max-width: 100;
            background: $surface; border: round $primary; padding: 0 1;
        }}
        {BOX}
    }}
    """

    def __init__(self, tier: str, *, grace: float = GRACE) -> None:
        super().__init__()
        self._tier, self._grace = tier, grace

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("", classes="dialog--head", markup=False)
            yield Static(offered(self._tier), classes="dialog--reason", markup=False)
            answers = [
                Choice("no", "No, keep asking me about commands", "n"),
                Choice("yes", "Yes, turn it on", "y"),
                Choice("later", "Not now, ask at the next start", "l"),
            ]
            yield Choices(answers, grace=self._grace)
            yield Static(_UNDO, classes="dialog--note", markup=False)

    def on_mount(self) -> None:
        words = Content.assemble(("Run commands in a sandbox?", "bold"), (f"  {self._tier}", palette_of(self).dim))
        self.query_one(".dialog--head", Static).update(words)
        self.query_one(Choices).focus()

    @on(Choices.Chosen)
    def _chosen(self, event: Choices.Chosen) -> None:
        answer: OfferAnswer = "yes" if event.choice == "yes" else "no" if event.choice == "no" else "later"
        self.dismiss(answer)
