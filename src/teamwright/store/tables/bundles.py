"""Bundles of code that a space has. Only a replica of an engine's log has this table."""

from teamwright.core.data.code import Parcel
from teamwright.store.acts.bundles import AddBundle
from teamwright.store.db.database import Database
from teamwright.store.db.statements import fetch_all


class BundleTable:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def add(self, parcel: Parcel) -> None:
        """Durable on return."""
        await self._db.write(AddBundle(parcel))

    async def of(self, project: str) -> list[Parcel]:
        """Bundles of one repository, the oldest first."""
        sql = "SELECT project, tip, prerequisites, object, bytes FROM bundles WHERE project = ? ORDER BY added, tip"
        rows = await self._db.read(fetch_all(sql, (project,)))
        return [Parcel(row[0], row[1], tuple(row[2].split()), row[3], row[4]) for row in rows]
