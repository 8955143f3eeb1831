"""Submits typed text as a prompt, a command or a shell line, and offers completions."""

import re
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from anyio import to_thread
from msgspec import Struct

from teamwright.app import Options
from teamwright.core.data.message import Content, Text
from teamwright.core.data.op import Say
from teamwright.core.errors import TeamwrightError
from teamwright.core.ids import AgentId
from teamwright.runtime.port import SessionPort
from teamwright.runtime.slash_commands import unknown_command
from teamwright.surfaces.terminal.messages import AnswerQuestion
from teamwright.surfaces.terminal.prompt.completion import Completion, TypedWord, list_files, rank, rank_commands
from teamwright.surfaces.terminal.prompt.drafts import Drafts
from teamwright.surfaces.terminal.prompt.shell_actions import run_shell_line, with_pictures
from teamwright.surfaces.terminal.questions import answer, blocking, in_words
from teamwright.surfaces.terminal.slash.catalog import ALIASES, COMMANDS, choices
from teamwright.surfaces.terminal.slash.command import CommandContext
from teamwright.surfaces.terminal.widgets.prompt_input import PromptInput
from teamwright.surfaces.view.shapes import NoteKind, Queued
from teamwright.surfaces.view.text import duration, one_line
from teamwright.surfaces.view.view import SessionFold

FRESH = 15.0  # seconds for which the list of files is used
_NAME = re.compile(r"/([\w:.-]+)(?:\s+(.*))?", re.S)


class Counter(CommandContext, Protocol):
    """The app, as the clerk sees it."""

    session: SessionPort
    options: Options
    view: SessionFold
    drafts: Drafts

    @property
    def prompt(self) -> PromptInput: ...
    def tell(self, text: str, kind: NoteKind = "info", *, who: str = "") -> None: ...
    def hint(self, text: str) -> None: ...


class Work(Struct, eq=False):
    """Something that the person waits for."""

    text: str
    since: float


class Clerk:
    def __init__(self, counter: Counter) -> None:
        self._counter, self._session = counter, counter.session
        self._works: list[Work] = []
        self._files: list[Completion] = []
        self._listed = 0.0

    @property
    def doing(self) -> str:
        """What is in progress, and for how long; empty if nothing is."""
        if not self._works:
            return ""
        work = self._works[-1]
        took = time.monotonic() - work.since
        return f"{work.text}  {duration(round(1000 * took))}" if took >= 1 else work.text

    @contextmanager
    def _at_work(self, text: str) -> Generator[Work]:
        work = Work(text, time.monotonic())
        self._works.append(work)
        try:
            yield work
        finally:
            self._works.remove(work)

    async def take(self, text: str) -> None:
        """On an error, show it, and put a prompt back into the input; Up brings back a command."""
        counter = self._counter
        try:
            if text.startswith("!") and text[1:].strip():
                await self._shell(text[1:].strip())
            elif not (found := _NAME.fullmatch(text.strip())) or not await self._command(
                found[1], found[2] or "", text
            ):
                await self._prompt(text)
        except TeamwrightError as error:
            counter.tell(str(error), "error")
            if not counter.prompt.text and not _NAME.fullmatch(text.strip()):
                counter.prompt.put(text)

    async def _prompt(self, text: str) -> None:
        """While the agent waits for an answer, typed text is that answer: nothing queues up behind a question."""
        counter = self._counter
        asked = blocking(counter.view, counter.here)
        if asked is not None:
            words = AnswerQuestion(asked, in_words(asked, text.strip()))
            await answer(counter.session, counter.view.questions, words, counter.options)
        else:
            await self._say(await to_thread.run_sync(with_pictures, text, counter.session.cwd), text)

    async def _say(self, content: Sequence[Content], text: str) -> None:
        counter = self._counter
        await counter.session.say(Say(tuple(content), agent=self._elsewhere(), typed=text))

    def _elsewhere(self) -> AgentId | None:
        here = self._counter.here
        return None if here == self._counter.view.main else here

    async def _command(self, name: str, words: str, text: str) -> bool:
        """False if it is no command, but text that begins with a slash."""
        counter = self._counter
        if (command := COMMANDS.get(ALIASES.get(name, name))) is not None:
            with self._at_work(f"/{name} …"):
                shown = await command.run(counter, words.strip())
            if shown:
                counter.tell(shown, "output", who=text.strip())
            return True
        with self._at_work(f"/{name} …"):
            expanded = await counter.session.expand(text.strip())
        if expanded is None:
            known = [*(one.word for one in await choices(counter.session)), *ALIASES]
            if not (error := unknown_command(text, known, listed_by="/help")):
                return False
            counter.tell(error, "error")
        elif expanded.content:
            await self._say(expanded.content, text)
        elif expanded.error:
            counter.tell(expanded.error, "error")
        elif expanded.output:
            counter.tell(expanded.output, "aside")
        return True

    async def _shell(self, command: str) -> None:
        counter = self._counter
        short = one_line(command, 40)
        with self._at_work(f"! {short} …") as work:

            def show_last(line: str) -> None:
                work.text = f"! {short}: {one_line(line, 80)}"

            text = await run_shell_line(command, self._cwd, counter.options.env, show_last)
        await counter.session.say(Say((Text(text),), agent=self._elsewhere(), typed=f"! {command}", quiet=True))

    @property
    def _cwd(self) -> Path:
        """Working directory of the main agent."""
        return Path(self._session.facts.cwd)

    async def take_back(self, queued: Queued) -> None:
        """Move it from the queue into the input, unless the agent was quicker."""
        counter = self._counter
        if not await counter.session.withdraw(queued.letter, queued.agent):
            counter.hint("too late: the agent has just read it")
            return
        prompt = counter.prompt
        prompt.put(f"{queued.text}\n{prompt.text}" if prompt.text else queued.text)

    # --- completion

    async def complete(self, word: TypedWord | None) -> None:
        prompt = self._counter.prompt
        if word is None:
            prompt.offer(None, [])
            return
        if word.kind == "/":
            found = rank_commands(await choices(self._counter.session), word.text, self._used())
        else:
            found = await to_thread.run_sync(rank, await self._list_files(), word.text)
        prompt.offer(word, found)

    def _used(self) -> list[str]:
        """Commands that were typed here, the most recent first."""
        drafts = self._counter.drafts
        typed = reversed(drafts.kept.prompts)
        return [found[1] for text in typed if (found := _NAME.fullmatch(text.strip()))]

    async def _list_files(self) -> list[Completion]:
        if not self._files or time.monotonic() - self._listed > FRESH:
            self._files = [Completion(name) for name in await list_files(self._cwd)]
            self._listed = time.monotonic()
        return self._files
