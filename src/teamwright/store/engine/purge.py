"""Purges a removed session from the engine: its lines, and objects that nobody else names.

Objects go first, then the lines that name them, then the note of what is left to do, so that it can be repeated after a
kill.
"""

from collections.abc import Collection, Mapping

from teamwright.core.data.code import OBJECT
from teamwright.core.ids import AgentId
from teamwright.store.acts.removal import Removed, SessionPurged
from teamwright.store.engine.space import Space
from teamwright.store.tables.rows.remotes import select_remotes


async def purge(space: Space, removed: Removed) -> None:
    """Purge a session. If nothing is left of it, nothing happens."""
    await _remove_objects(space, removed)
    for agent in removed.agents:
        await space.lines.purge(agent)
    await space.drop_record(f"place/{removed.session}")
    await space.replica.write(SessionPurged(removed.session))


async def _remove_objects(space: Space, removed: Removed) -> None:
    named = await space.lines.named()
    mine = {*removed.objects}.union(*(named.get(agent, ()) for agent in removed.agents))
    mine -= await _named_by_others(space, removed.agents, named)
    kept = {name: data for name in mine if name.startswith("prompt/") and (data := await space.lines.get(name))}
    for name in sorted(mine):
        await space.objects.remove(name)
    if kept:  # a prompt that is there is not sent again, so somebody may have begun with it meanwhile
        again = await _named_by_others(space, removed.agents, await space.lines.named())
        for name in again & kept.keys():
            await space.lines.put(name, kept[name])


async def _named_by_others(
    space: Space, agents: Collection[AgentId], named: Mapping[AgentId, Collection[str]]
) -> set[str]:
    """Names in lines of other agents, of agents on workers, and of the code that the space has for everybody."""
    found = set[str]().union(*(names for agent, names in named.items() if agent not in agents))
    for remote in await space.replica.look(lambda db: select_remotes(db, "1")):
        found |= {f"charter/{remote.charter}", *OBJECT.findall(remote.branch)}
    rows = await space.replica.look(lambda db: db.execute("SELECT object FROM bundles").fetchall())
    return found | {object for (object,) in rows}
