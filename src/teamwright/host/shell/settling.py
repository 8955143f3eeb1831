"""Applies what only the whole line shows: one command in it may change the effect of another."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from teamwright.core.permissions.facts import Command, Place
from teamwright.host.shell.programs.git import makes_repository
from teamwright.host.shell.programs.special import gives_orders


def settled(
    commands: Sequence[Command],
    reads: Sequence[Place],
    writes: Sequence[Place],
    fleeting: Iterable[int],
    given: Sequence[tuple[str, str]],
    *,
    links: bool,
    later: bool,
) -> tuple[Command, ...]:
    """The commands, with every conclusion dropped that the line itself may invalidate. `fleeting`: those whose words or
    paths depend on existing files. `given`: variables that they may find set. `links`: one of the commands creates a
    link. `later`: other calls may change files before they run."""
    out = [_unruled(c, given) for c in _unless_changed(commands, fleeting, writes=later or bool(writes))]
    if later or any(makes_repository(place.path) for place in writes):
        out = list(map(_unless_git, out))
    if not _stays(out, reads, writes, links=links):
        out = [structs.replace(c, edits_only=False) for c in out]
    if any(c.is_git and not c.harmless for c in out):
        out = [structs.replace(c, reads=tuple(map(_unlooked, c.reads))) for c in out]
    return tuple(out)


def _unruled(command: Command, given: Sequence[tuple[str, str]]) -> Command:
    """A rule does not cover a command for which the line sets variables elsewhere."""
    program = command.views[-1].words[:1] if command.views else ()
    if not given or not gives_orders(given, program[0] if program else ""):
        return command
    return structs.replace(command, views=tuple(structs.replace(view, need=None) for view in command.views))


def _unless_git(command: Command) -> Command:
    return structs.replace(command, harmless=command.harmless and not command.is_git)


def _unless_changed(commands: Sequence[Command], fleeting: Iterable[int], *, writes: bool) -> list[Command]:
    """If anything else changes files, the effect of commands that depend on existing files is unknown."""
    out = list(commands)
    changing = {n for n, c in enumerate(out) if not c.harmless and not c.shadow}
    for n in fleeting:
        if writes or changing - {n}:
            out[n] = structs.replace(out[n], harmless=False, edits_only=False)
    return out


def _unlooked(place: Place) -> Place:
    """What a repository holds is unknown if the line itself may change it: `git add -A && git diff --cached`."""
    return structs.replace(place, held=None) if place.vast else place


def _stays(commands: Sequence[Command], reads: Sequence[Place], writes: Sequence[Place], *, links: bool) -> bool:
    """Will all paths still lead to the same place when they are used, although files are moved and removed before?

    Yes for a single command, or if no path contains a link: moved trees contain none (see `edits`).
    """
    acting = list(filter(_acts, commands))
    if len(acting) == 1 and not reads and not writes:
        return True
    places = [*reads, *writes]
    for command in acting:
        places += (*command.reads, *command.edits)
    return not links and all(place.given == place.path for place in places if place.path)


def _acts(command: Command) -> bool:
    """Does it do anything itself, even just reading?"""
    return not command.shadow and bool(command.reads or command.edits or not command.harmless)
