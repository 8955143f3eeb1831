"""Input of the prompt: several lines, history, pastes of any size, completion. Nothing typed is lost."""

from pathlib import Path
from typing import ClassVar, Literal

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from teamwright.surfaces.terminal.prompt.completion import Completion, Completions, TypedWord, quoted, word_at
from teamwright.surfaces.terminal.prompt.drafts import Drafts
from teamwright.surfaces.terminal.prompt.vim_keys import VimKeys
from teamwright.tools.bounds import visible

CHIP_LINES, CHIP_SIZE = 12, 1_500  # larger pastes are shown as a single word, a chip
PLACEHOLDER = "Ask, or type / @ ! for commands, files, the shell"
Aid = Literal["search", "editor", "picture"]
NEW_LINE = ("shift+enter", "shift+\r", "alt+enter", "ctrl+j")  # xterm sends the second for the first


class PromptInput(TextArea):
    DEFAULT_CSS = """
    PromptInput { height: auto; min-height: 1; max-height: 12; border: none; padding: 0; background: transparent;
                  scrollbar-size-vertical: 1; }
    PromptInput:focus { border: none; background-tint: transparent; }
    PromptInput .text-area--cursor-line { background: transparent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "app.page(-1)", show=False),
        Binding("pagedown", "app.page(1)", show=False),
        Binding("shift+up", "app.neighbour(-1)", show=False),
        Binding("shift+down", "app.neighbour(1)", show=False),
        Binding("ctrl+d", "delete_or_leave", show=False),
        Binding("ctrl+end", "app.bottom", show=False),
        Binding("ctrl+r", "help('search')", show=False),
        Binding("ctrl+g", "help('editor')", show=False),
        Binding("ctrl+v", "help('picture')", show=False),
        Binding("ctrl+z", "app.suspend_process", show=False),
        Binding("ctrl+underscore", "undo", show=False),
        Binding("alt+d,ctrl+delete", "delete_word_right", show=False),
    ]

    class Submitted(Message):
        """`text` is complete, with the contents of all chips."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Escaped(Message):
        """Esc was pressed, and there was nothing here to close."""

    class ChoicesWanted(Message):
        """Asks for choices for this word; None: no word can be completed."""

        def __init__(self, word: TypedWord | None) -> None:
            super().__init__()
            self.word = word

    class HelpWanted(Message):
        """`aid` names a help for typing."""

        def __init__(self, aid: Aid) -> None:
            super().__init__()
            self.aid: Aid = aid

    class Ended(Message):
        """Ctrl+D in an empty input."""

    class Emptied(Message):
        """Up in an empty input: a queued prompt can be edited."""

    def __init__(self, drafts: Drafts, completions: Completions, *, id: str | None = None) -> None:
        super().__init__(
            drafts.kept.draft,
            id=id,
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
            placeholder=PLACEHOLDER,
        )
        self.cursor_blink = False  # each blink would redraw a part of the screen, forever
        self._drafts, self._completions = drafts, completions
        self.pastes = dict(drafts.kept.pastes)
        self._word: TypedWord | None = None
        self._listed: TypedWord | None = None  # the word that the list of choices is for
        self._vim: VimKeys | None = None
        self._place = len(drafts.kept.prompts)  # position in the earlier prompts
        self._unsent = ""  # text typed before going back in them
        self._quiet = False  # set while we change the text: no completion

    def on_mount(self) -> None:
        self.move_cursor(self.document.end)

    # --- the text

    def whole(self) -> str:
        text = self.text
        for chip, paste in self.pastes.items():
            text = text.replace(chip, paste)
        return text

    @property
    def earlier(self) -> list[str]:
        """Prompts of this directory, the oldest first."""
        return self._drafts.kept.prompts

    def attach(self, picture: Path, size: int) -> None:
        """Insert a picture as one word, which is sent as a mention of the file."""
        chip = f"[picture {len(self.pastes) + 1}: {max(1, size // 1024):,} kB]"
        self.pastes[chip] = quoted(str(picture))
        self.insert(f"{chip} ")

    def put(self, text: str) -> None:
        """Replace the text."""
        self._quiet = True
        self.text = text
        self.move_cursor(self.document.end)
        self._completions.close()
        self._word = None  # choices that are still on their way are not shown

    def send_away(self) -> str:
        """Returns the whole text; it is remembered, and the input is emptied."""
        whole = self.whole()
        self._drafts.remember(whole)
        self.put("")
        self.pastes.clear()
        self._place, self._unsent = len(self._drafts.kept.prompts), ""
        return whole

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        self._drafts.kept.draft = self.text
        self._drafts.kept.pastes = {chip: paste for chip, paste in self.pastes.items() if chip in self.text}
        quiet, self._quiet = self._quiet, False
        if not quiet:
            self._ask_for_choices()

    # --- completion

    def _ask_for_choices(self) -> None:
        row, column = self.cursor_location
        word = word_at(self.text, row, column)
        if word is None and self._word is None:
            return
        self._word = word
        self.post_message(self.ChoicesWanted(word))

    def offer(self, word: TypedWord | None, choices: list[Completion]) -> None:
        if word == self._word:
            self._listed = word
            self._completions.offer(choices)

    def _take(self, choice: Completion) -> str:
        word, (row, column) = self._word, self.cursor_location
        assert word is not None
        new = f"/{choice.word}" if word.kind == "/" else quoted(choice.word)
        folder = word.kind == "@" and choice.word.endswith("/")
        self._quiet = not folder
        self.replace(new if folder else new + " ", (row, word.start), (row, column))
        if not folder:
            self._completions.close()
            self._word = None
        return word.kind

    # --- keys

    def use_vim(self, *, on: bool) -> None:
        if self._vim is not None:
            self._vim.leave()
        self._vim = VimKeys(self) if on else None

    @property
    def is_vim(self) -> bool:
        return self._vim is not None

    async def _on_key(self, event: events.Key) -> None:
        listed = self._completions.display and self._drive_completions(event.key)
        if listed or (self._vim is not None and self._vim.take(event)):
            event.prevent_default().stop()
        elif event.key in NEW_LINE:
            event.prevent_default().stop()
            self.insert("\n")
        elif event.key == "enter":
            event.prevent_default().stop()
            self._enter()
        elif event.key == "escape":
            event.prevent_default().stop()
            self.post_message(self.Escaped())

    def _drive_completions(self, key: str) -> bool:
        match key:
            case "up" | "down":
                self._completions.move(-1 if key == "up" else 1)
            case "escape":
                self._completions.close()
                self._word = None
            case "tab" | "enter":
                return self._complete(key)
            case _:
                return False
        return True

    def _complete(self, key: str) -> bool:
        choice = self._completions.chosen
        if choice is None:
            return False
        typed = word_at(self.text, *self.cursor_location)
        if self._listed != typed:  # the keys were quicker than the list
            taken = typed is not None and (typed.kind, typed.text) == ("@", choice.word)  # a folder, just now
            return key == "tab" or taken
        if self._take(choice) == "/" and key == "enter":
            self._enter()
        return True

    def _enter(self) -> None:
        row, column = self.cursor_location
        if column and self.document.get_line(row)[:column].endswith("\\"):
            self.replace("\n", (row, column - 1), (row, column))
        else:
            self.post_message(self.Submitted(self.send_away()))

    async def _on_paste(self, event: events.Paste) -> None:
        """A long paste becomes a chip. A short one is inserted with hidden characters escaped."""
        event.prevent_default().stop()
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines > CHIP_LINES or len(text) > CHIP_SIZE:
            text, paste = f"[paste {len(self.pastes) + 1}: {lines:,} lines, {len(text):,} characters]", text
            self.pastes[text] = paste
        else:
            text = visible(text)
        self._quiet = self._word is None  # it opens no list, but an open one follows it
        start, end = self.selection
        self.replace(text, min(start, end), max(start, end), maintain_selection_offset=False)

    def action_cursor_up(self, select: bool = False) -> None:  # noqa: FBT001, FBT002
        if select or not self.cursor_at_first_line:
            super().action_cursor_up(select)
        elif not self.text:
            self.post_message(self.Emptied())
        else:
            self.go_back(-1)

    def action_cursor_down(self, select: bool = False) -> None:  # noqa: FBT001, FBT002
        if select or not self.cursor_at_last_line:
            super().action_cursor_down(select)
        else:
            self.go_back(1)

    def go_back(self, step: int) -> None:
        """Go through the earlier prompts; what was being typed comes back at the end."""
        prompts = self._drafts.kept.prompts
        place = self._place + step
        if not 0 <= place <= len(prompts):
            return
        if self._place >= len(prompts):
            self._unsent = self.text
        self._place = place
        self.put(self._unsent if place == len(prompts) else prompts[place])

    def action_help(self, aid: Aid) -> None:
        self.post_message(self.HelpWanted(aid))

    def action_delete_or_leave(self) -> None:
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.Ended())
