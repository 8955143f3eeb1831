"""`/sandbox`: what holds the commands of this session, and the switch for later ones."""

from functools import partial

from anyio import to_thread

from teamwright.core.errors import UsageError
from teamwright.store.files.paths import home_from
from teamwright.store.settings.saved_values import save_sandbox
from teamwright.surfaces.terminal.slash.command import CommandContext
from teamwright.surfaces.terminal.slash.pages import settings_page

SWITCHES = {"on": True, "off": False}


async def sandbox(stage: CommandContext, words: str) -> str:
    if words in SWITCHES:
        home = home_from(stage.options.env).root
        file = await to_thread.run_sync(partial(save_sandbox, home, on=SWITCHES[words]))
        return f"Written to {file}: the sandbox is {words} from the next session on (/clear starts one)."
    if words:
        raise UsageError("/sandbox takes on or off, or nothing to show it")
    facts = stage.session.facts
    lines = [_held(facts.sandbox)]
    if told := await settings_page(stage, "sandbox."):
        lines += ["", "Settings:", told]
    return "\n".join([*lines, "", "/doctor tries what this machine has; /sandbox on, /sandbox off switch it."])


def _held(sandbox: str) -> str:
    if not sandbox:
        return "The sandbox is off: commands run as you do, and need your approval."
    if sandbox == "none":
        return "The sandbox is on, but nothing here can hold it: every command needs approval."
    return (
        f"Commands run in the sandbox ({sandbox}): they write only in the working directories and their own tmp, do "
        "not see keys, and reach only hosts that you allow."
    )
