"""`/config`: settings that a person may change, in their own settings file; and all that are in effect."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from teamwright.app import open_workspace
from teamwright.core.data.op import SetEffort, SetModel
from teamwright.core.errors import UsageError
from teamwright.store.files.paths import home_from
from teamwright.store.settings.load import describe
from teamwright.store.settings.saved_values import check_value, kind_of, save_sandbox, save_values
from teamwright.store.settings.schema import StatusCommand
from teamwright.surfaces.terminal.dialogs.value_entry import ValueEntry
from teamwright.surfaces.terminal.dialogs.value_picker import Row, ValuePicker
from teamwright.surfaces.terminal.prompt import vim
from teamwright.surfaces.terminal.render import themes
from teamwright.surfaces.terminal.slash.command import CommandContext
from teamwright.surfaces.terminal.slash.pages import settings_page
from teamwright.surfaces.view.text import one_line

NOT_SET = "(not set)"
THEME, KEYS, MODEL, EFFORT, SANDBOX = "theme", "editorMode", "model", "effort", "sandbox.enabled"
STATUS = "statusLine"
LIVE = frozenset({THEME, KEYS, MODEL, EFFORT, "teamwright.notify", "teamwright.notifySeconds"})  # applied at once
ABOUT = {
    THEME: "colours of the app",
    KEYS: "keys of the input: normal, or those of vi",
    MODEL: "the model of new sessions, and of this one",
    EFFORT: "how hard the model thinks, here and in new sessions",
    "alwaysThinkingEnabled": "false: models answer without thinking",
    "permissions.defaultMode": "the permission mode that sessions begin with; /permissions changes it for this one",
    SANDBOX: "commands run in the sandbox, and need no approval there",
    "outputStyle": "how the agent answers: the name of an output style",
    "language": "the language in which the agent answers",
    STATUS: "a command whose output is the status line",
    "teamwright.notify": "how you are notified while you look elsewhere",
    "teamwright.notifySeconds": "a turn of this many seconds is worth a notification when it ends",
    "teamwright.terminalTitle": "the terminal's title says what the session does",
    "teamwright.promptSuggestions": "suggests the next prompt after each turn",
    "teamwright.handOffCheck": "looks over an agent's tool calls before its result is passed on",
    "teamwright.agentSummaries": "asks background agents now and then for a line on what they do",
    "teamwright.sessionMemory": "sessions leave notes for later ones in the same project",
    "teamwright.background": "false: nothing runs in the background",
    "teamwright.backgroundAfterSeconds": "moves an agent to the background after this many seconds",
    "teamwright.teammateMode": "where teammates run",
    "teamwright.lean": "a short prompt and six tools; without it, for small context windows only",
    "teamwright.maxAgents": "agents that run in parallel in a session",
    "teamwright.budget.usd": "dollars that a session may spend",
    "teamwright.questionTimeoutSeconds": "a question that nobody answers is a no after this many seconds",
}


class SettingInEffect(Struct, frozen=True):
    """A value in effect, and its source."""

    value: Any = None
    source: str = ""
    file: str = ""

    @property
    def words(self) -> str:
        if self.value is None:
            return NOT_SET
        return self.value if isinstance(self.value, str) else msgspec.json.encode(self.value).decode()


async def config(stage: CommandContext, words: str) -> str:
    key, _, value = words.partition(" ")
    if key in ABOUT and value.strip():
        return await change(stage, key, value.strip())
    if words:
        return await settings_page(stage, words) or f"No setting begins with {words}."
    changed: list[str] = []
    at = ""
    while (picked := await _pick(stage, at)) is not None:
        at = picked
        if (wanted := await _ask(stage, at)) is not None:
            changed.append(await change(stage, at, wanted))
    return "\n".join(changed)


async def _pick(stage: CommandContext, at: str) -> str | None:
    standing = await to_thread.run_sync(_read, stage)
    rows = [
        Row(key, (key, standing[key].words, standing[key].source), f"{about}{_when(key)}")
        for key, about in ABOUT.items()
    ]
    return await stage.push_screen_wait(ValuePicker("setting to change", rows, at=at))


def _when(key: str) -> str:
    return "" if key in LIVE else " (from the next session on)"


async def _ask(stage: CommandContext, key: str) -> str | None:
    """The new value in words, empty for none; None: it stays as it is."""
    now = (await to_thread.run_sync(_read, stage))[key]
    if (values := _values(stage, key)) is None:
        check = partial(_parsed, key)
        written = "" if now.value is None else now.words
        return await stage.push_screen_wait(ValueEntry(key, written, f"{ABOUT[key]}{_when(key)}", check))
    values = values if key in (THEME, KEYS) else [*values, NOT_SET]
    chosen = await stage.push_screen_wait(ValuePicker(key, values, now.words))
    return None if chosen in (None, now.words) else chosen.replace(NOT_SET, "")


def _require_value(key: str, words: str, values: Sequence[str] | None) -> None:
    if words and key != MODEL and values is not None and words not in values:
        raise UsageError(f"{key} takes one of: {', '.join(values)}")


async def change(stage: CommandContext, key: str, words: str) -> str:
    """Save a setting, and apply it at once if possible. An unusable value is not saved."""
    words = "" if words == NOT_SET else words
    _require_value(key, words, _values(stage, key))
    if key == THEME:
        stage.use_theme(words)
        return f"The theme is {words}."
    value = _parsed(key, words)
    await _use(stage, key, value)
    file = await to_thread.run_sync(_save, home_from(stage.options.env).root, key, value)
    now = (await to_thread.run_sync(_read, stage))[key]
    told = f"{key} is {words or 'not set any more'}, written to {file}{_when(key)}."
    if now.file in ("", str(file)) or now.words == words:
        return told
    return f"{told} Here {now.file} sets it to {one_line(now.words, 80)}, which counts before."


def _save(home: Path, key: str, value: Any) -> Path:
    if key == SANDBOX and value is not None:
        return save_sandbox(home, on=value)
    return save_values(home, {key: value})


async def _use(stage: CommandContext, key: str, value: Any) -> None:
    if key == MODEL and value is not None:
        await stage.session.submit(SetModel(value))
    elif key == EFFORT:
        await stage.session.submit(SetEffort(value))
    elif key == KEYS:
        stage.prompt.use_vim(on=value == "vim")
        await to_thread.run_sync(partial(vim.keep, home_from(stage.options.env).root, on=value == "vim"))


def _read(stage: CommandContext) -> dict[str, SettingInEffect]:
    """Each listed setting as it is now. Blocks."""
    ground = open_workspace(replace(stage.options, cwd=stage.session.cwd))
    told = {key: SettingInEffect(value, source, file) for key, value, source, file in describe(ground.settings)}
    found = {key: told.get(key, SettingInEffect()) for key in ABOUT}
    found[THEME] = SettingInEffect(stage.theme.removeprefix("tw-"), "app")
    found[KEYS] = SettingInEffect("vim" if stage.prompt.is_vim else "normal", "app")
    found[STATUS] = told.get(f"{STATUS}.command", SettingInEffect())
    return found


def _values(stage: CommandContext, key: str) -> list[str] | None:
    """The values to choose from; None: it is typed."""
    if key == THEME:
        return list(themes.NAMES)
    if key == KEYS:
        return ["normal", "vim"]
    if key == MODEL:
        session = stage.session
        return sorted({session.facts.model, *session.model_names})
    parts = _parts(key)
    if bool in parts:
        return ["true", "false"]
    literal = next((part for part in parts if get_origin(part) is Literal), None)
    return None if literal is None else [str(value) for value in get_args(literal)]


def _parts(key: str) -> tuple[Any, ...]:
    """The types that a setting may have."""
    kind = kind_of(key)
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _parsed(key: str, words: str) -> Any:
    """The value that these words mean; None: not set. Raises UsageError if they do not fit."""
    if not words:
        return None
    parts = _parts(key)
    value: Any = words
    if StatusCommand in parts:
        value = {"type": "command", "command": words}
    elif str not in parts and not any(get_origin(part) is Literal for part in parts):
        try:
            value = msgspec.json.decode(words)
        except msgspec.DecodeError:
            raise UsageError(f"{key}: a number is needed, not {one_line(words, 40)}") from None
    check_value(key, value)
    return value
