"""Keeps a person's rules for a project in its local settings, and tells trust and git about them."""

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
    """Save rules that hold in this project, for this person, from the next start on. Blocks."""
    ground = open_workspace(options)
    ours = _is_ours(ground)
    path = ground.project / LOCAL
    with _claimed(ground):
        change_rules(path, behaviour, add=[_spelt(rule, behaviour) for rule in rules], state=ground.home.root)
    leave_out_file(path)
    _agree(ground, ours=ours)


def drop_rules(options: Options, behaviour: Behaviour, rules: Sequence[str]) -> bool:
    """Remove rules, named as they are listed; False if none of them was kept there. Blocks."""
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
    """As the file has it: commands that run outside are patterns without a tool name."""
    found = parse_rule(rule, "local") if behaviour == "outside" else None
    return found.pattern or "*" if isinstance(found, Rule) else rule


def _ruled(text: str, behaviour: Behaviour) -> str:
    return f"{BASH}({text})" if behaviour == "outside" else text


@contextmanager
def _claimed(ground: Workspace) -> Generator[None]:
    """Claim the file, so that no guard of a running command undoes our write as planted."""
    from teamwright.host.sandbox.guard.claims import MADE, Claims  # noqa: PLC0415

    claims, path = Claims(str(ground.home.root.joinpath(*MADE))), str(ground.project / LOCAL)
    claims.take(path)
    try:
        yield
    finally:
        claims.release(path)


def _is_ours(ground: Workspace) -> bool:
    """Whether the file holds only what the person wrote. Other content must not become trusted because one of their
    rules is next to it."""
    path = ground.project / LOCAL
    ours = not os.path.lexists(path) or is_agreed(ground.project, LOCAL, state=ground.home.root)
    if not ours and not ground.trusted:
        raise UsageError(
            f"{shown(str(path))} holds settings that you have not agreed to, so nothing was saved there. "
            "`teamwright trust` shows and accepts them."
        )
    return ours


def _agree(ground: Workspace, *, ours: bool) -> None:
    """Note our own write, so that it neither ends trust nor asks for it."""
    project, state = ground.project, ground.home.root
    if is_trusted(project, state=state):
        agree_to_own(project, project / LOCAL, ground.changed, state=state)
    elif ours:
        agree_to_saved(project, LOCAL, state=state)
