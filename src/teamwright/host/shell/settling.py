"""What only a whole command line tells: what one command in it does may change what another one comes to."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from teamwright.core.permissions.facts import Command, Place
from teamwright.host.shell.git import makes_repository


def settled(
    commands: Sequence[Command],
    reads: Sequence[Place],
    writes: Sequence[Place],
    fleeting: Iterable[int],
    *,
    links: bool,
) -> tuple[Command, ...]:
    """The commands, with nothing left that rests on what the line itself changes. `fleeting`: those whose words or
    paths are the files that are there now. `links`: one of them makes a link."""
    out = list(commands)
    changing = [n for n, c in enumerate(out) if not c.harmless and not c.shadow]
    for n in fleeting:
        if writes or any(other != n for other in changing):
            out[n] = structs.replace(out[n], harmless=False, edits_only=False)
    if any(makes_repository(place.path) for place in writes):
        out = [structs.replace(c, harmless=c.harmless and not c.is_git) for c in out]
    if any(c.edits_only for c in out) and not _stays(out, reads, writes, links=links):
        out = [structs.replace(c, edits_only=False) for c in out]
    return tuple(out)


def _stays(commands: Sequence[Command], reads: Sequence[Place], writes: Sequence[Place], *, links: bool) -> bool:
    """Do all paths lead where they lead now, though files are moved and removed before they are used?

    They do where there is one command, or no link on any way: none comes with what is moved (see `edits`).
    """
    acting = [c for c in commands if not c.shadow and (c.reads or c.edits or not c.harmless)]
    if len(acting) == 1 and not reads and not writes:
        return True
    places = [place for c in acting for place in (*c.reads, *c.edits)]
    return not links and all(place.given == place.path for place in (*places, *reads, *writes) if place.path)
