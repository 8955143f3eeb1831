"""The app: the screen's frame, its keys and their actions. It watches a session and submits ops."""

from collections.abc import Awaitable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import ClassVar

from anyio import to_thread
from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.filter import LineFilter, NoColor
from textual.widgets import Static

from teamwright.app import Options
from teamwright.core.data.op import SendToBackground, SetMode
from teamwright.core.errors import TeamwrightError
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Mode
from teamwright.models.prices import cost
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.port import SessionPort
from teamwright.store.files.paths import home_from
from teamwright.surfaces.terminal import keys, messages
from teamwright.surfaces.terminal.dialogs.picker import SessionPicker
from teamwright.surfaces.terminal.dialogs.rewind import rewind_by_dialogs
from teamwright.surfaces.terminal.escape import EscapeKeys
from teamwright.surfaces.terminal.follow import EventFollower, read_again, read_missing
from teamwright.surfaces.terminal.greeting import greeting
from teamwright.surfaces.terminal.keyboard import WaitingDriver
from teamwright.surfaces.terminal.leave import Leave
from teamwright.surfaces.terminal.margins.alert import ring
from teamwright.surfaces.terminal.margins.margins import Margins
from teamwright.surfaces.terminal.margins.moments import Hint
from teamwright.surfaces.terminal.pace import FramePace
from teamwright.surfaces.terminal.prompt.aids import Typing
from teamwright.surfaces.terminal.prompt.drafts import Drafts
from teamwright.surfaces.terminal.prompt.submit import Clerk
from teamwright.surfaces.terminal.questions import QuestionQueue, answer
from teamwright.surfaces.terminal.render import themes
from teamwright.surfaces.terminal.widgets import frame
from teamwright.surfaces.terminal.widgets.agents_panel import neighbour
from teamwright.surfaces.terminal.widgets.coach import Coach
from teamwright.surfaces.terminal.widgets.conversation import Conversation
from teamwright.surfaces.terminal.widgets.prompt_input import PromptInput
from teamwright.surfaces.terminal.widgets.queue_list import QueueList
from teamwright.surfaces.terminal.widgets.side import BESIDE, Page, Side
from teamwright.surfaces.view.shapes import AgentView, Item, Note, NoteKind
from teamwright.surfaces.view.text import one_line
from teamwright.surfaces.view.view import SessionFold

# slow imports; the last ones are for a client
SLOW = ("teamwright.surfaces.terminal.render.markdown", "multidict", "yarl", "attr")
SETTLE = 0.3  # seconds after the first picture
NEXT_MODE: dict[str, Mode] = {"default": "acceptEdits", "acceptEdits": "plan"}


class TerminalApp(App[Leave]):
    CSS = frame.CSS
    BINDINGS: ClassVar[list[BindingType]] = list(keys.BINDINGS)
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        session: SessionPort,
        options: Options,
        *,
        prompt: str | None = None,
        theme: str = "dark",
        pick: bool = False,
        coach: Coach | None = None,
    ) -> None:
        super().__init__(driver_class=WaitingDriver)
        keys.teach_alt_keys()
        for known in themes.themes():
            self.register_theme(known)
        self.theme = f"tw-{theme}"  # now, because a later change would compute all styles again
        self.options, self.home = options, home_from(options.env)
        self.session = session
        self.drafts = Drafts(self.home, session.cwd)
        self.view = SessionFold(self.session.main, price=cost, color=self._color)
        self.clerk = Clerk(self)
        self._prompt, self._first_theme, self._pick, self._coach = prompt, theme, pick, coach
        self._hint, self._escape, self._margins = Hint(), EscapeKeys(self), Margins(self)
        self._questions = QuestionQueue(self, self.view)
        self._crew_version = -1
        self._pace = FramePace(self._tick, self._keep, smooth=lambda: len(self.screen_stack) == 1)

    def _color(self, agent: AgentView) -> str:
        return self.session.color(agent.id, agent.kind)

    # --- frame

    def get_default_screen(self) -> frame.FrameScreen:
        return frame.FrameScreen(id="_default")

    def compose(self) -> ComposeResult:
        return frame.compose(self.view, self.drafts, here=self._get_here, budget=self._get_budget, coach=self._coach)

    def _get_here(self) -> AgentId:
        return self.here

    def _get_budget(self) -> str:
        return self.session.facts.left

    def on_mount(self) -> None:
        self.conversation.use(themes.PALETTES[self._first_theme])
        self.prompt.focus()
        if not self.session.facts.begun and not self._prompt:
            self.tell(greeting(self.session.facts, self.options.env.get("HOME", "")), "output")
        for note in self.session.notes:
            self.tell(note, "warning")
        self.run_worker(self._follow(), name="follow")
        self._pace.start(self)
        if self._prompt:
            self.run_worker(self.clerk.take(self._prompt), name="prompt")
        if self._pick:
            self.pick_session()

    async def _follow(self) -> None:
        await EventFollower(self.session, self.view, self._heard, self._pace.wake).follow()
        self.exit(Leave(ended=True))

    @property
    def conversation(self) -> Conversation:
        return self.screen_stack[0].query_one(Conversation)

    @property
    def prompt(self) -> PromptInput:
        return self.screen_stack[0].query_one(PromptInput)

    @property
    def side(self) -> Side:
        return self.screen_stack[0].query_one(Side)

    @property
    def here(self) -> AgentId:
        shown = self.screen_stack[0].query(Conversation) if self.screen_stack else ()
        return shown.first().agent if shown else self.view.main  # none is left when the app ends

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent | events.Resize | events.AppFocus):
            self._pace.wake()
        await super().on_event(event)

    def _tick(self) -> bool:
        """Draw what has changed since the last frame. False if nothing has."""
        if not self.is_running or not self.screen_stack:
            return False
        if self.app_focus and self.focused is None and len(self.screen_stack) == 1:
            self._give_keys()
        passing = self._hint.text or self.clerk.doing  # these vanish when their time is over
        changed = bool(passing) | self.conversation.tick()
        changed |= self._margins.draw(passing or self._questions.hint)
        self._questions.look()
        if self._coach is not None:
            self._coach.look(self)
        if self.side.display and (self.side.falls_due() or self._crew_version != self.view.version):
            self._crew_version, changed = self.view.version, True
            self.run_worker(self.side.read(self.session), group="crew", exclusive=True)
        return changed

    def _give_keys(self) -> None:
        """The widget with the keyboard was hidden, as by a resize: typed keys must go somewhere."""
        self.prompt.focus() if self.screen.query_one("#main").display else self.side.take_keys()

    def _keep(self) -> None:
        self.view.price_all()
        self.run_worker(self._save(), name="save")

    def on_ready(self) -> None:
        self.set_timer(SETTLE, self._settle_in)

    def _settle_in(self) -> None:
        """Do what the first picture need not wait for."""
        if not self.screen_stack:
            return  # the app was left meanwhile
        self.side.prepare()
        self._margins.prepare()
        self.run_worker(self._typing().prepare(), name="vim")
        for name in SLOW:
            self.run_worker(to_thread.run_sync(import_module, name), name=name)

    async def _save(self) -> None:
        if words := await to_thread.run_sync(self.drafts.save):
            self.hint(words)

    def on_unmount(self) -> None:
        self._margins.leave()
        self.drafts.save()

    def on_resize(self, event: events.Resize) -> None:
        self._arrange(event.size.width)

    def _arrange(self, width: int) -> None:
        """In a narrow terminal the side takes the place of the conversation."""
        self.side.set_class(width < BESIDE, "-alone")
        self.screen_stack[0].query_one("#main").display = not (width < BESIDE and self.side.display)

    def get_line_filters(self) -> list[LineFilter]:
        filters = list(super().get_line_filters())
        return [*filters, NoColor()] if self.theme == "tw-none" else filters

    # --- notices

    def tell(self, text: str, kind: NoteKind = "info", *, who: str = "") -> None:
        self.view.note(self.here, Note(kind, text, who))
        self._pace.wake()

    def wake(self) -> None:
        """Something must be drawn."""
        self._pace.wake()

    def hint(self, text: str) -> None:
        """Show a text in the status line for a moment."""
        self._hint = Hint(text)
        self._pace.wake()

    def _heard(self, *, ended: bool, asked: bool) -> None:
        """Alert the person: a turn has ended, or a question waits."""
        if ended:
            self.run_worker(self._margins.read_branch(), name="branch")
        if not self.app_focus:
            began = self.view.agent(self.view.main).turn
            self.run_worker(ring(self.write_terminal, self.options, asked=asked, began=began), name="call")

    def write_terminal(self, text: str) -> None:
        """Write a control sequence of our own."""
        if self._driver is not None:
            self._driver.write(text)

    # --- requests of dialogs, panels and widgets

    @on(messages.AnswerQuestion)
    async def _answer(self, event: messages.AnswerQuestion) -> None:
        await self.attempt(answer(self.session, self.view.questions, event, self.options))

    @on(messages.OpenAgent)
    def open_agent(self, chosen: messages.OpenAgent | AgentId) -> None:
        agent = chosen.agent if isinstance(chosen, messages.OpenAgent) else chosen
        self.conversation.open(agent)
        found = self.view.agent(agent)
        main = agent == self.view.main
        style = themes.agent_style(found.color, self.conversation.palette)
        to = Content("›") if main else Content.assemble((f"to {one_line(found.name, 30)} ›", style))
        self.screen_stack[0].query_one("#mark", Static).update(to)
        self.run_worker(read_missing(self.session, self.view, agent), group="older")
        if self.side.has_class("-alone"):
            self.close_side()
        self.prompt.focus()

    @on(Conversation.Older)
    def _older(self, event: Conversation.Older) -> None:
        self.run_worker(self._read_page(event), group="older")

    async def _read_page(self, event: Conversation.Older) -> None:
        items = await read_again(self.session, event.agent, event.before, event.most)
        self.conversation.add_older(event.agent, items)

    async def everything(self) -> list[Item]:
        return await read_again(self.session, self.here)

    @on(messages.StopAgent)
    @on(messages.StopEverything)
    async def _stop(self, event: messages.StopAgent | messages.StopEverything) -> None:
        await self.attempt(self.session.stop(event.agent if isinstance(event, messages.StopAgent) else None))

    @on(messages.Background)
    async def action_background(self) -> None:
        await self.attempt(self.session.submit(SendToBackground()))

    async def attempt(self, doing: Awaitable[object]) -> None:
        """Run it, and show a mistake in the status line."""
        try:
            await doing
        except TeamwrightError as error:
            self.hint(str(error))

    @on(PromptInput.Submitted)
    def _submitted(self, event: PromptInput.Submitted) -> None:
        if event.text.strip():
            self.run_worker(self.clerk.take(event.text), group="submit")
        else:
            self._questions.open()

    @on(PromptInput.ChoicesWanted)
    def _wanted(self, event: PromptInput.ChoicesWanted) -> None:
        self.run_worker(partial(self.clerk.complete, event.word), group="complete", exclusive=True)

    @on(PromptInput.HelpWanted)
    def _help_typing(self, event: PromptInput.HelpWanted) -> None:
        self.run_worker(self._typing().help(event.aid), group="aid")

    def _typing(self) -> Typing:
        return Typing(self, self.prompt, self.options, self.tell)

    @on(PromptInput.Emptied)
    async def _take_back(self) -> None:
        """Take back a queued prompt, or else go to the previous one."""
        if self.view.queue:
            await self.clerk.take_back(self.view.queue[-1])
        else:
            self.prompt.go_back(-1)

    @on(QueueList.Picked)
    async def _picked(self, event: QueueList.Picked) -> None:
        await self.clerk.take_back(event.queued)

    @on(Conversation.Left)
    def action_nothing(self) -> None:
        """Return to typing. Also for a key that Textual would act on, harmfully."""
        self.prompt.focus()

    # --- keys

    @on(PromptInput.Escaped)
    async def _escaped(self) -> None:
        await self._escape.escape()

    async def action_interrupt_or_leave(self) -> None:
        await self._escape.interrupt_or_leave()

    @on(PromptInput.Ended)
    def leave(self) -> None:
        self.exit(Leave())

    def action_details(self) -> None:
        self.conversation.toggle_everything()

    def action_page(self, by: int) -> None:
        self.conversation.page(by)
        self._pace.wake()

    def action_bottom(self) -> None:
        self.conversation.action_bottom()

    def action_neighbour(self, step: int) -> None:
        self.open_agent(neighbour(self.view, self.here, step))

    async def action_next_mode(self) -> None:
        await self.attempt(self.session.submit(SetMode(NEXT_MODE.get(self.session.facts.mode, "default"))))

    def action_tasks(self) -> None:
        self._margins.toggle_tasks()

    def action_side(self) -> None:
        if not self.side.display:
            self.open_side("agents")
        elif (page := self.side.next_page) is None:
            self.close_side()
        else:
            self.open_side(page)

    def open_side(self, page: Page) -> None:
        self._crew_version = -1
        self.side.open(page)
        self._arrange(self.size.width)

    @on(Side.Closed)
    def close_side(self) -> None:
        self.side.display = False
        self._arrange(self.size.width)
        self.prompt.focus()

    # --- requests of commands

    def use_theme(self, name: str) -> None:
        self.theme = f"tw-{name}"
        self.conversation.use(themes.PALETTES[name])
        self.run_worker(to_thread.run_sync(themes.keep, self.home.root, name), name="theme")

    def go_on_with(self, origin: Origin) -> None:
        self.exit(Leave(origin))

    def rewind(self) -> None:
        self.run_worker(self.attempt(rewind_by_dialogs(self)), name="rewind")

    def pick_session(self) -> None:
        def chosen(id: str | None) -> None:
            if id is not None:
                self.exit(Leave(Origin(id)))

        self.push_screen(SessionPicker(self.home, Path(self.session.cwd), here=self.session.id), chosen)
