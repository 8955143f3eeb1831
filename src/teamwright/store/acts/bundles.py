"""Acts on the code that a space has: which commits can be fetched from its objects."""

import sqlite3

from msgspec import Struct

from teamwright.core.data.code import Parcel
from teamwright.store.acts.act import Context


class AddBundle(Struct, frozen=True):
    """The engine has this commit, and already its object. A known one with the same tip stays as it is."""

    parcel: Parcel

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        sql = """
            INSERT INTO bundles (project, tip, prerequisites, object, bytes, added) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (project, tip) DO NOTHING
        """
        new = self.parcel
        db.execute(sql, (new.project, new.tip, " ".join(new.prerequisites), new.object, new.bytes, ctx.now))
