"""The task list of a session. Once there are teams, they share it."""

from typing import TYPE_CHECKING

from teamwright.core.data.event import Warned
from teamwright.runtime.extensions.hook_services import TeamHooks
from teamwright.runtime.teams.tasks.board import TaskBoard
from teamwright.runtime.teams.tasks.session_scope import SessionTaskScope
from teamwright.store.mirrors.task import TaskMirror
from teamwright.store.tables.mail_insert import MailLimits
from teamwright.store.tables.tasks import TaskTable

if TYPE_CHECKING:
    from teamwright.app.services import Services


def mail_limits(services: "Services") -> MailLimits:
    own = services.workspace.own
    mail = own.mail
    return MailLimits(mail.unread, mail.kib * 1024, mail.per_minute, mail.answers)


def open_board(services: "Services") -> TaskBoard:
    store, hooks = services.store, TeamHooks(services.points)
    table = TaskTable(store.state.database, limits=mail_limits(services))
    home = store.home or services.workspace.home
    scope = SessionTaskScope(store.session, services, hooks if hooks.guards else None)

    def report(words: str) -> None:
        services.tell(services.main, Warned(words))

    return TaskBoard(table, TaskMirror(services.copies or home.root, table), scope, report)
