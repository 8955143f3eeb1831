"""The rules of a session as `/permissions` lists them, and revoking one."""

from collections.abc import Sequence

from anyio import to_thread
from msgspec.structs import replace

from teamwright.app import Options
from teamwright.app.saved_rules import drop_rules
from teamwright.core.data.op import RemoveRules
from teamwright.core.errors import UsageError
from teamwright.runtime.port import SessionPort, StandingRule
from teamwright.store.settings.schema import LOCAL
from teamwright.surfaces.terminal.dialogs.value_picker import Row
from teamwright.surfaces.terminal.slash.command import CommandContext
from teamwright.surfaces.view.text import one_line

_REVOCABLE = ("session", "local")


def rules_page(rules: Sequence[StandingRule]) -> str:
    """Each rule with its number, its effect and its source."""
    if not rules:
        return "  no rules are in effect"
    shown = [one_line(one.rule, 200) for one in rules]
    widest = min(60, max(map(len, shown)))
    lines = [
        f"  {n:>3}  {one.behaviour:7}  {rule.ljust(widest)}  {_source(one)}"
        for n, (one, rule) in enumerate(zip(rules, shown, strict=True), 1)
    ]
    if any(one.source in _REVOCABLE for one in rules):
        lines += ["", "  /permissions remove NUMBER revokes one of the session or of the local settings."]
    return "\n".join(lines)


async def pick_rule(stage: CommandContext, rules: Sequence[StandingRule]) -> str:
    """The number of the rule that the person wants to revoke; empty: none."""
    rows = [
        Row(str(n), (one.behaviour, one.rule, _source(one)))
        for n, one in enumerate(rules, 1)
        if one.source in _REVOCABLE
    ]
    if not rows:
        return ""
    from teamwright.surfaces.terminal.dialogs.confirming_picker import ConfirmingPicker  # noqa: PLC0415

    return await stage.push_screen_wait(ConfirmingPicker("rule to remove", rows, "Remove")) or ""


def _source(one: StandingRule) -> str:
    return f"{one.source}, for {one_line(one.agent, 40)} alone" if one.agent else one.source


async def revoke(session: SessionPort, options: Options, words: str) -> str:
    """Revoke a rule, by its number in the list or by its text."""
    rules = await session.rules()
    found = [one for n, one in enumerate(rules, 1) if words in (str(n), one.rule)]
    ours = [one for one in found if one.source in _REVOCABLE]
    if not found:
        raise UsageError("/permissions remove takes the number of a rule, or the rule; /permissions lists them")
    if not ours:
        raise UsageError(f"{found[0].rule} is of the {found[0].source} settings, which are not changed from here")
    for one in ours:
        if one.source == "local":
            await _drop(session, options, one)
        source = "local" if one.source == "local" else "session"
        await session.submit(RemoveRules((one.rule,), one.behaviour, source))
    return f"Revoked: {', '.join(f'{one.behaviour} {one.rule} ({_source(one)})' for one in ours)}."


async def _drop(session: SessionPort, options: Options, one: StandingRule) -> None:
    here = replace(options, cwd=session.cwd)
    if not await to_thread.run_sync(drop_rules, here, one.behaviour, (one.rule,)):
        raise UsageError(f"{one.rule} is not in {LOCAL}: remove it from the file that it is in")
