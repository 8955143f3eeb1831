"""One session in the editor: its prompts, its settings, and the end of it."""

import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from teamwright.core.data.event import Event, LettersTaken, Record, Replied, TurnEnded
from teamwright.core.errors import TeamwrightError
from teamwright.core.ids import AgentId
from teamwright.runtime.concurrency.races import first
from teamwright.runtime.port import Live, SessionPort
from teamwright.runtime.slash_commands import unknown_command
from teamwright.surfaces.acp.protocol.shapes import Client
from teamwright.surfaces.acp.protocol.wire import INTERNAL, PARAMS, RpcError, Wire
from teamwright.surfaces.acp.questions.consent import EditorConsent
from teamwright.surfaces.acp.threads import commands
from teamwright.surfaces.acp.threads.config import Config
from teamwright.surfaces.acp.threads.hosting import SessionHost
from teamwright.surfaces.acp.threads.prompt_content import SaidPrompt
from teamwright.surfaces.acp.threads.prompts import Pending, Prompts, failure_of, reached, stop_of
from teamwright.surfaces.acp.threads.replay import fold_again, updates_of
from teamwright.surfaces.acp.updates.hearing import JOIN, Hearing
from teamwright.surfaces.view.shapes import Spoken
from teamwright.tools.bounds import visible

CLOSE_SECONDS = 5.0
HEARD_SECONDS = 5.0  # to hear the last records of a settled session
ENDED = "the session has ended; load it again to go on with it"
CANCELLED = "It was cancelled."


class Thread:
    """`ready`: prompts are taken. `successor`: the same session, opened again in its place."""

    def __init__(
        self, port: SessionPort, host: SessionHost, wire: Wire, client: Client, group: TaskGroup, prompts: Prompts
    ) -> None:
        self.port, self.host, self._group = port, host, group
        may_bypass = not port.elsewhere and (host.options.may_bypass or host.options.mode == "bypassPermissions")
        self.config = Config(port, may_bypass=may_bypass, effort=host.options.effort)
        self.prompts = prompts
        self.hearing = Hearing(port, wire, client, self.config, prompts)
        self.hearing.consent = EditorConsent(port.id, port, wire, group, host.options)
        self.ready = anyio.Event()
        self.replaced = False
        self.successor: Thread | None = None
        self.over = anyio.Event()
        self._bell, self._news = anyio.Event(), anyio.Event()
        self._last = TurnEnded("done")
        self._settling: anyio.CancelScope | None = None
        self._offered: list[dict[str, Any]] = []

    # --- start

    async def begin(self, *, replay: bool) -> None:
        """Hear the past, tell it if wanted, and follow what comes."""
        was, live = await self.port.begin()
        past, now = [r for r in was.records if r.n], [r for r in was.records if not r.n]
        hearing, main = self.hearing, self.port.main
        for record in past:
            hearing.seen[record.agent] = max(record.n, hearing.seen.get(record.agent, 0))
            hearing.view.apply(record)
            if record.agent == main and isinstance(record.event, Replied):
                hearing.cards.replied(record.event)
            hearing.cards.hear(record)
        hearing.voice.place(hearing.seen.get(main, 0))
        self._name(past)
        hearing.cards.close_all(told=replay)
        if replay:
            items = await to_thread.run_sync(fold_again, past, main)
            for update in updates_of(items, main, str(self.port.cwd)):
                hearing.tell(update)
        hearing.show_running(told=replay)
        self.config.effort = (await self.port.status()).effort
        hearing.settle_settings()
        for record in now:
            await hearing.hear(record)
        if past:
            hearing.tell_usage()
            hearing.view.tasks_changed += self.port.facts.begun  # a new one has no tasks
            self._bell.set()
        self._group.start_soon(self._kept, partial(self._follow, live))
        self._group.start_soon(self._kept, self._tick)

    def _name(self, past: list[Record]) -> None:
        for record in past:
            if isinstance(record.event, LettersTaken) and record.agent == self.port.main:
                items = self.hearing.view.talk(self.port.main).items
                said = next((i.text for i in items if isinstance(i, Spoken) and i.role == "person"), "")
                self.hearing.title = visible(said or record.event.message.text)[:80]
                return

    def state(self) -> dict[str, Any]:
        return {"modes": self.config.mode_state(), "configOptions": self.config.options()}

    async def offer_commands(self) -> None:
        try:
            offered = await commands.offered(self.port)
        except TeamwrightError:
            return  # the session has just ended
        if offered != self._offered:
            self._offered = offered
            self.hearing.tell({"sessionUpdate": "available_commands_update", "availableCommands": offered})

    # --- events

    async def _follow(self, live: Live) -> None:
        try:
            async for record in live:
                await self._hear(record)
                self._bell.set()
                self._news.set()
                if record.agent == self.port.main:
                    await self._follow_main(record.event)
            if self._settling is not None:
                self._settling.cancel()
                await self._answer(self._last)
        finally:
            live.close()
            self.over.set()
            self._bell.set()
            if not self.replaced:
                self.hearing.close()
                self.prompts.end_all(RpcError(INTERNAL, ENDED))
                self.ready.set()

    async def _kept(self, work: Callable[[], Awaitable[None]]) -> None:
        """A bug ends this session only, and none of the editor's others."""
        try:
            await work()
        except Exception:  # noqa: BLE001  # the edge of a surface
            traceback.print_exc()
            self.host.close()

    async def _hear(self, record: Record) -> None:
        try:
            await self.hearing.hear(record)
        except Exception:  # noqa: BLE001  # the edge of a surface: a record that cannot be told must not end the session
            traceback.print_exc()

    async def _follow_main(self, event: Event) -> None:
        if not isinstance(event, TurnEnded):
            return
        self._last = event
        waits_for_others = event.reason == "done" and self.config.turns == "settled"
        if not waits_for_others:
            await self._answer(event)
        elif self.prompts.taken and self._settling is None:
            self._group.start_soon(self._kept, self._settle)
        await self.offer_commands()

    async def _answer(self, end: TurnEnded) -> None:
        """Everything about a turn is told before its answer."""
        try:
            await self.hearing.tell_rest()
        except TeamwrightError as error:
            sys.stderr.write(f"teamwright: {visible(str(error))}\n")
        if end.reason == "failed":
            self.prompts.end_taken(failure=failure_of(end))
        else:
            self.prompts.end_taken(stop_of(end))

    async def _settle(self) -> None:
        """Wait until nobody works for the main agent any more, and what they brought was told."""
        with anyio.CancelScope() as scope:
            self._settling = scope
            try:
                lines = await self.port.settled()
                with anyio.move_on_after(HEARD_SECONDS):
                    while not reached(self.hearing.seen, lines, [self.port.main]):
                        self._news = anyio.Event()
                        await self._news.wait()
                await anyio.sleep(JOIN)
                await self._answer(self._last)
            except TeamwrightError:  # the session ended elsewhere: the turn itself was over
                await self._answer(self._last)
            finally:
                self._settling = None

    async def _tick(self) -> None:
        """Tells what was joined for a moment, and updates cards at most a few times a second."""
        while not self.over.is_set():
            await self._bell.wait()
            self._bell = anyio.Event()
            await anyio.sleep(JOIN)
            wait = self.hearing.flush()
            with suppress(TeamwrightError):  # it is read again at the next change
                await self.hearing.tell_plan()
            if wait is not None:
                await anyio.sleep(wait)
                self._bell.set()

    # --- requests of the editor

    async def prompt(self, said: SaidPrompt) -> str:
        """Carry out a prompt; returns why the turn that answers it stopped."""
        pending = self.prompts.begin(said.typed)
        try:
            await first(self.ready.wait, pending.over.wait)
            if not pending.over.is_set():
                await (self.successor or self).carry_out(said, pending)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await (self.successor or self).cancel()
            raise
        except TeamwrightError as error:
            raise RpcError(INTERNAL, str(error)) from None
        finally:
            self.prompts.done(pending)
        if pending.failure is not None:
            raise pending.failure
        return pending.stop

    async def carry_out(self, said: SaidPrompt, pending: Pending) -> None:
        if self.over.is_set():
            raise RpcError(INTERNAL, ENDED)
        if pending.cancelled:
            pending.end("cancelled")
        elif name := commands.split_command(said.typed)[0]:
            await self._run_command(name, said, pending)
        else:
            await self.prompts.say(self.port, said.op(), pending)
        await pending.over.wait()

    async def _run_command(self, name: str, said: SaidPrompt, pending: Pending) -> None:
        """A cancel ends the wait for the command."""

        async def run() -> None:
            if name in commands.OWN:
                await self._run_own(name, said)
                pending.end("end_turn")
            else:
                await self._expand(said, pending)

        pending.ends_at_once = True
        await first(run, pending.over.wait)

    async def _run_own(self, name: str, said: SaidPrompt) -> None:
        desk = commands.CommandDesk(self.port, self.hearing, self.host.options.env, said.attached)
        try:
            shown = await commands.OWN[name].run(desk, commands.split_command(said.typed)[1])
        except TeamwrightError as error:
            shown = f"/{name}: {error}"
        if shown:
            self.hearing.speak(shown)

    async def _expand(self, said: SaidPrompt, pending: Pending) -> None:
        """Expand a skill or a server's prompt; words that begin with a path go to the model unchanged."""
        found = await self.port.expand(said.typed.strip())
        pending.ends_at_once = False
        error = "" if found is not None else unknown_command(said.typed, await commands.names(self.port))
        if error:
            self.hearing.speak(error)
            pending.end("end_turn")
        elif found is None or found.content:
            await self.prompts.say(self.port, said.op() if found is None else said.op(found.content), pending)
            await pending.over.wait()
        else:
            self.hearing.speak(found.error or found.output or "")
            pending.end("end_turn")

    async def steer(self, said: SaidPrompt) -> str:
        """Add words to a running turn; without one they must be a prompt."""
        if self.hearing.agent_state() not in ("running", "waiting"):
            return "promptRequired"
        await self.port.say(said.op())
        return "injected"

    async def cancel(self) -> None:
        """End the turn, or the wait for agents that go on. Every prompt is answered."""
        if self._settling is not None and self.hearing.agent_state() == "idle":
            self._settling.cancel()
            self.prompts.end_taken("cancelled")
        for pending in self.prompts.pending:
            pending.cancelled = True
            if pending.ends_at_once or not self.ready.is_set():
                pending.end("cancelled")
        try:
            await self.prompts.cancel(self.port)
        except TeamwrightError as error:
            sys.stderr.write(f"teamwright: {visible(str(error))}\n")
        late = [p for p in self.prompts.pending if p.letter is not None and not p.over.is_set()]
        if late:
            self.hearing.fail_calls(CANCELLED)
        for pending in late:
            pending.end("cancelled")

    async def stop_child(self, agent: AgentId) -> None:
        with suppress(TeamwrightError):  # it has just ended
            await self.port.stop(agent)

    async def set_option(self, id: str, value: str) -> None:
        if self.over.is_set():
            raise RpcError(PARAMS, ENDED)
        await self.config.set(id, value)

    async def close(self) -> None:
        self.host.close()
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await self.host.closed.wait()
            await self.over.wait()  # the last of it has been told
