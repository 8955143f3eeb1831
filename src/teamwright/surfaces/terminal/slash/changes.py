"""Commands that change how the session works: model, permissions, theme."""

from functools import partial
from typing import get_args

from anyio import to_thread

from teamwright.core.data.message import Effort
from teamwright.core.data.op import SetEffort, SetMode, SetModel
from teamwright.core.errors import UsageError
from teamwright.core.permissions.consent import MODES, Mode
from teamwright.store.files.paths import home_from
from teamwright.surfaces.terminal.dialogs.value_picker import ValuePicker
from teamwright.surfaces.terminal.prompt import vim
from teamwright.surfaces.terminal.render import themes
from teamwright.surfaces.terminal.slash.command import CommandContext
from teamwright.surfaces.terminal.slash.rules import pick_rule, revoke, rules_page
from teamwright.surfaces.terminal.widgets.status import MODES as MODE_WORDS

EFFORTS: tuple[Effort, ...] = get_args(Effort)
USUAL = "default"  # of effort: the provider's default


async def model(stage: CommandContext, words: str) -> str:
    session = stage.session
    if not words:
        names = sorted({session.facts.model, *session.model_names})
        words = await stage.push_screen_wait(ValuePicker("model", names, session.facts.model)) or ""
        if not words or words == session.facts.model:
            return ""
    await session.submit(SetModel(None if words == "default" else words))
    return f"The model is {session.facts.model} from the next request on."


async def effort(stage: CommandContext, words: str) -> str:
    session = stage.session
    if not words:
        now = str((await session.status()).effort or USUAL)
        words = await stage.push_screen_wait(ValuePicker("effort", [USUAL, *EFFORTS], now)) or now
        if words == now:
            return ""
    chosen: Effort | None = next((known for known in EFFORTS if known.casefold() == words.casefold()), None)
    if chosen is None and words != USUAL:
        raise UsageError(f"/effort takes one of {', '.join(EFFORTS)}, or {USUAL}")
    await session.submit(SetEffort(chosen))
    return f"The effort is {chosen or 'the usual one of the model'} from the next request on."


async def permissions(stage: CommandContext, words: str) -> str:
    session = stage.session
    first, _, rest = words.partition(" ")
    if first == "remove":
        return await revoke(session, stage.options, rest.strip())
    if words:
        chosen: Mode | None = next((known for known in MODES if known.casefold() == words.casefold()), None)
        if chosen is None:
            raise UsageError(f"unknown permission mode {words!r}; use one of {', '.join(MODES)}")
        await session.submit(SetMode(chosen))
    elif number := await pick_rule(stage, await session.rules()):
        return await revoke(session, stage.options, number)
    mode = session.facts.mode
    rules = rules_page(await session.rules())
    return f"Mode {mode}: {MODE_WORDS[mode]}. /permissions MODE changes it ({', '.join(MODES)}).\n\n{rules}"


async def theme(stage: CommandContext, words: str) -> str:
    if not words:
        words = await stage.push_screen_wait(ValuePicker("theme", themes.NAMES, stage.theme.removeprefix("tw-"))) or ""
        if not words:
            return ""
    if words not in themes.NAMES:
        raise UsageError(f"/theme takes one of {', '.join(themes.NAMES)}")
    stage.use_theme(words)
    return ""


async def toggle_vim(stage: CommandContext, words: str) -> str:
    on = not stage.prompt.is_vim
    stage.prompt.use_vim(on=on)
    await to_thread.run_sync(partial(vim.keep, home_from(stage.options.env).root, on=on))
    return "The input has the keys of vi: Esc for normal mode, i to insert." if on else "The input has its usual keys."
