"""Rules that the person keeps for a project: in its local settings, with what trust and git must know of them."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from teamwright.app.options import Options
from teamwright.app.workspace import Workspace, open_workspace
from teamwright.core.errors import UsageError
from teamwright.core.permissions.consent import Behaviour
from teamwright.core.permissions.rules import BASH, Rule, parse_rule
from teamwright.core.text import shown
from teamwright.host.git.places import leave_out_file
from teamwright.library.trust.decision import is_trusted
from teamwright.library.trust.snapshot import agree_to_own, agree_to_saved, is_agreed
from teamwright.store.settings.saved_rules import change_rules, place_of
from teamwright.store.settings.schema import LOCAL


def keep_rules(options: Options, behaviour: Behaviour, rules: Sequence[str]) -> None:
    """From the next start on they hold in this project, for this person. Blocks."""
    ground = open_workspace(options)
    ours = _is_ours(ground)
    path = ground.project / LOCAL
    with _claimed(ground):
        change_rules(path, behaviour, add=[_spelt(rule, behaviour) for rule in rules], state=ground.home.root)
    leave_out_file(path)
    _agree(ground, ours=ours)


def drop_rules(options: Options, behaviour: Behaviour, rules: Sequence[str]) -> bool:
    """As they are listed; False if none of them was kept there. Blocks."""
    ground = open_workspace(options)
    ours, path = _is_ours(ground), ground.project / LOCAL
    layers = (layer.values for layer in ground.settings.layers if layer.file == str(path))
    block, name = place_of(behaviour)
    texts = [text for values in layers for text in values.get(block, {}).get(name, ())]
    gone = [text for text in texts if text in rules or str(parse_rule(_ruled(text, behaviour), "local")) in rules]
    with _claimed(ground):
        changed = change_rules(path, behaviour, remove=gone, state=ground.home.root) if gone else False
    if changed:
        _agree(ground, ours=ours)
    return changed


def _spelt(rule: str, behaviour: Behaviour) -> str:
    """As the file has it: of commands that run outside it has the patterns alone."""
    found = parse_rule(rule, "local") if behaviour == "outside" else None
    return found.pattern or "*" if isinstance(found, Rule) else rule


def _ruled(text: str, behaviour: Behaviour) -> str:
    return f"{BASH}({text})" if behaviour == "outside" else text


@contextmanager
def _claimed(ground: Workspace) -> Generator[None]:
    """What we write there is not undone as if a command that runs now had planted it."""
    from teamwright.host.sandbox.guard.claims import MADE, Claims  # noqa: PLC0415

    claims, path = Claims(str(ground.home.root.joinpath(*MADE))), str(ground.project / LOCAL)
    claims.take(path)
    try:
        yield
    finally:
        claims.release(path)


def _is_ours(ground: Workspace) -> bool:
    """Is there nothing in the file but what the person had written? What somebody else put there must not become
    trusted because a rule of the person stands beside it."""
    path = ground.project / LOCAL
    ours = not os.path.lexists(path) or is_agreed(ground.project, LOCAL, state=ground.home.root)
    if not ours and not ground.trusted:
        raise UsageError(
            f"{shown(str(path))} holds settings that you have not agreed to, so nothing was saved there. "
            "`teamwright trust` shows and accepts them."
        )
    return ours


def _agree(ground: Workspace, *, ours: bool) -> None:
    """What we wrote is no news to the person: it neither ends trust nor asks for it."""
    project, state = ground.project, ground.home.root
    if is_trusted(project, state=state):
        agree_to_own(project, project / LOCAL, ground.changed, state=state)
    elif ours:
        agree_to_saved(project, LOCAL, state=state)
