"""The tables that hold teams."""

from pathlib import Path

from msgspec import Struct

from teamwright.store.db.database import Database
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.mail_insert import LIMITS, MailLimits
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.requests import RequestTable
from teamwright.store.tables.teams import TeamTable


class TeamTables(Struct, frozen=True):
    database: Database
    teams: TeamTable
    mail: MailTable
    requests: RequestTable
    processes: ProcessTable


def open_team_tables(database: Database, run: Path, limits: MailLimits = LIMITS) -> TeamTables:
    """`run` is the directory of locks."""
    processes = ProcessTable(database, run)
    teams = TeamTable(database, limits)
    return TeamTables(database, teams, MailTable(database, limits), RequestTable(database, limits), processes)
