"""The app: the screen's frame, its keys and their actions. It watches a session and submits ops."""

from collections.abc import Awaitable
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
from teamwright.core.data.op import Interrupt, SendToBackground, SetMode
from teamwright.core.errors import TeamwrightError
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Mode
from teamwright.models.prices import cost
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.port import SessionPort
from teamwright.store.files.paths import home_from
from teamwright.surfaces.terminal import keys, messages
from teamwright.surfaces.terminal.alert import read_alert
from teamwright.surfaces.terminal.dialogs.picker import SessionPicker
from teamwright.surfaces.terminal.follow import EventFollower, read_again
from teamwright.surfaces.terminal.greeting import greeting
from teamwright.surfaces.terminal.leave import Leave, warning
from teamwright.surfaces.terminal.moments import Hint, Presses
from teamwright.surfaces.terminal.pace import Pace
from teamwright.surfaces.terminal.prompt import shell_actions as errands
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
from teamwright.surfaces.terminal.widgets.side import BESIDE, PAGES, Page, Side
from teamwright.surfaces.terminal.widgets.status import StatusLine
from teamwright.surfaces.view.shapes import AgentView, Item, Note, NoteKind
from teamwright.surfaces.view.text import one_line
from teamwright.surfaces.view.view import SessionFold

SLOW = ("teamwright.surfaces.terminal.render.markdown", "multidict", "yarl", "attr")  # imports; the last of a client
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
        super().__init__()
        keys.teach_alt_enter()
        for known in themes.themes():
            self.register_theme(known)
        self.theme = f"tw-{theme}"  # now, because later all styles would be computed again
        self.options, self.home = options, home_from(options.env)
        self.session = session
        self.drafts = Drafts(self.home, session.cwd)
        self.view = SessionFold(self.session.main, price=cost, color=self._color)
        self.clerk = Clerk(self)
        self._prompt, self._first_theme, self._pick, self._coach = prompt, theme, pick, coach
        self._branch, self._hint, self._presses = "", Hint(), Presses()
        self._questions = QuestionQueue(self, self.view)
        self._crew_version = -1
        self._pace = Pace(self._tick, self._keep)

    def _color(self, agent: AgentView) -> str:
        return self.session.color(agent.id, agent.kind)

    # --- the frame

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
        return self.conversation.agent

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent | events.Resize | events.AppFocus):
            self._pace.wake()
        await super().on_event(event)

    def _tick(self) -> bool:
        """Draw what has changed since the last frame. False if nothing has."""
        if not self.is_running or not self.screen_stack:
            return False
        base = self.screen_stack[0]
        changed = self.conversation.tick()
        base.query_one("#queue", QueueList).show(self.view.queue)
        hint = self._hint.text or self.clerk.doing
        status = base.query_one("#status", StatusLine)
        agent = self.view.agent(self.here)
        changed |= status.show(self.session.facts, agent, self.view, branch=self._branch, hint=hint)
        self._questions.look()
        if self._coach is not None:
            self._coach.look(self)
        if self.side.display and self._crew_version != self.view.version:
            self._crew_version = self.view.version
            self.run_worker(self.side.read(self.session), group="crew", exclusive=True)
        return changed and len(self.screen_stack) == 1  # behind a dialog nothing needs to move smoothly

    def _keep(self) -> None:
        self.view.price_all()
        self.run_worker(self._save(), name="save")

    def on_ready(self) -> None:
        self.set_timer(SETTLE, self._settle_in)

    def _settle_in(self) -> None:
        """What the first picture need not wait for."""
        if not self.screen_stack:
            return  # the app was left meanwhile
        self.side.prepare()
        self.run_worker(self._read_branch(), name="branch")
        for name in SLOW:
            self.run_worker(to_thread.run_sync(import_module, name), name=name)

    async def _read_branch(self) -> None:
        self._branch = await errands.branch_of(self.session.cwd)

    async def _save(self) -> None:
        if words := await to_thread.run_sync(self.drafts.save):
            self.hint(words)

    def on_unmount(self) -> None:
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

    # --- what is told

    def tell(self, text: str, kind: NoteKind = "info", *, who: str = "") -> None:
        self.view.note(self.here if self.screen_stack else self.view.main, Note(kind, text, who))
        self._pace.wake()

    def hint(self, text: str) -> None:
        """In the status line, for a moment."""
        self._hint = Hint(text)
        self._pace.wake()

    def _heard(self, *, ended: bool, asked: bool) -> None:
        """Alert the person: a turn has ended, or a question waits."""
        if ended:
            self.run_worker(self._read_branch(), name="branch")
        if not self.app_focus:
            self.run_worker(self._call(asked=asked), name="call")

    async def _call(self, *, asked: bool) -> None:
        if self._driver is not None:
            began = self.view.agent(self.view.main).turn
            self._driver.write(await read_alert(self.options, asked=asked, began=began))

    # --- questions

    @on(messages.AnswerQuestion)
    async def _answer(self, event: messages.AnswerQuestion) -> None:
        await self._try(answer(self.session, self.view.questions, event, self.options))

    # --- what panels and widgets ask for

    @on(messages.OpenAgent)
    def open_agent(self, chosen: messages.OpenAgent | AgentId) -> None:
        agent = chosen.agent if isinstance(chosen, messages.OpenAgent) else chosen
        self.conversation.open(agent)
        found = self.view.agent(agent)
        main = agent == self.view.main
        style = themes.agent_style(found.color, self.conversation.palette)
        to = Content("›") if main else Content.assemble((f"to {one_line(found.name, 30)} ›", style))
        self.screen_stack[0].query_one("#mark", Static).update(to)
        self.run_worker(self._read_older(agent), group="older")
        if self.side.has_class("-alone"):
            self.close_side()
        self.prompt.focus()

    async def _read_older(self, agent: AgentId) -> None:
        """An agent of an earlier run: nothing of it is in memory yet."""
        talk = self.view.talk(agent)
        if not talk.items:
            talk.items[:0] = await read_again(self.session, agent)
            talk.version += 1

    @on(Conversation.Older)
    def _older(self, event: Conversation.Older) -> None:
        self.run_worker(self._read_page(event), group="older")

    async def _read_page(self, event: Conversation.Older) -> None:
        items = await read_again(self.session, event.agent, event.before, event.most)
        self.conversation.add_older(event.agent, items)

    async def everything(self) -> list[Item]:
        return await read_again(self.session, self.here)

    @on(messages.StopAgent)
    async def _stop(self, event: messages.StopAgent) -> None:
        await self._try(self.session.stop(event.agent))

    @on(messages.StopEverything)
    async def _stop_all(self) -> None:
        await self._try(self.session.stop(None))

    @on(messages.Background)
    async def action_background(self) -> None:
        await self._try(self.session.submit(SendToBackground()))

    async def _try(self, doing: Awaitable[object]) -> None:
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

    @on(PromptInput.Wanted)
    def _wanted(self, event: PromptInput.Wanted) -> None:
        self.run_worker(self.clerk.complete(event.word), group="complete", exclusive=True)

    @on(PromptInput.Emptied)
    async def _take_back(self) -> None:
        """A queued prompt, else the one before."""
        if self.view.queue:
            await self.clerk.take_back(self.view.queue[-1])
        else:
            self.prompt.go_back(-1)

    @on(QueueList.Picked)
    async def _picked(self, event: QueueList.Picked) -> None:
        await self.clerk.take_back(event.queued)

    @on(Conversation.Left)
    def action_nothing(self) -> None:
        """Back to typing. Also for a key that Textual would take, and that must do no harm here."""
        self.prompt.focus()

    # --- keys

    @on(PromptInput.Escaped)
    async def _escaped(self) -> None:
        agent = self.view.agent(self.here)
        if self.side.display:
            self.close_side()
        elif agent.state in ("running", "waiting"):
            await self._interrupt()
        elif agent.id != self.view.main:
            self.open_agent(self.view.main)
        elif self.prompt.text:
            if self._presses.twice("clear"):
                self.prompt.send_away()
            else:
                self.hint("Esc again clears the input (Up restores it)")
        elif self._presses.twice("back"):
            self.prompt.go_back(-1)
        else:
            self.hint("Esc again brings back the last prompt")

    async def action_interrupt_or_leave(self) -> None:
        if selected := self.screen.get_selected_text() or self.prompt.selected_text:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            self.hint("copied")
        elif self.prompt.text:
            self.prompt.send_away()
            self.hint("cleared; Up restores it")
        elif self.view.agent(self.here).state in ("running", "waiting"):
            await self._interrupt()
        elif self._presses.twice("leave"):
            self.exit(Leave())
        else:
            self.hint(warning(self.view, elsewhere=self.session.elsewhere))

    async def _interrupt(self) -> None:
        await self._try(self.session.submit(Interrupt(None if self.here == self.view.main else self.here)))

    @on(PromptInput.Ended)
    def leave(self) -> None:
        self.exit(Leave())

    def action_details(self) -> None:
        self.conversation.toggle_everything()

    def action_page(self, by: int) -> None:
        self.conversation.scroll_relative(y=by * max(1, self.conversation.size.height - 2), animate=False)
        self._pace.wake()

    def action_bottom(self) -> None:
        self.conversation.action_bottom()

    def action_neighbour(self, step: int) -> None:
        self.open_agent(neighbour(self.view, self.here, step))

    async def action_next_mode(self) -> None:
        await self._try(self.session.submit(SetMode(NEXT_MODE.get(self.session.facts.mode, "default"))))

    def action_side(self) -> None:
        if not self.side.display:
            self.open_side("agents")
        elif self.side.page == PAGES[-1]:
            self.close_side()
        else:
            self.open_side(PAGES[PAGES.index(self.side.page) + 1])

    def open_side(self, page: Page) -> None:
        self._crew_version = -1
        self.side.open(page)
        self._arrange(self.size.width)

    @on(Side.Closed)
    def close_side(self) -> None:
        self.side.display = False
        self._arrange(self.size.width)
        self.prompt.focus()

    # --- what commands ask for

    def use_theme(self, name: str, *, keep: bool = True) -> None:
        self.theme = f"tw-{name}"
        self.conversation.use(themes.PALETTES[name])
        if keep:
            self.run_worker(to_thread.run_sync(themes.keep, self.home.root, name), name="theme")

    def go_on_with(self, origin: Origin) -> None:
        self.exit(Leave(origin))

    def pick_session(self) -> None:
        def chosen(id: str | None) -> None:
            if id is not None:
                self.exit(Leave(Origin(id)))

        self.push_screen(SessionPicker(self.home, Path(self.session.cwd), here=self.session.id), chosen)
