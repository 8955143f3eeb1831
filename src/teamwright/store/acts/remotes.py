"""Acts on workers and on the agents that they run for others. Which worker gets an agent is decided when an act is
applied, from the rows alone, so that every machine decides alike."""

import sqlite3
from typing import Any, Literal

import msgspec
from msgspec import Struct

from teamwright.core.data.job import JobResult
from teamwright.core.data.letter import JobStatus
from teamwright.core.data.team import Member, ProcessId, Refused
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId
from teamwright.core.policies.authority import Demand
from teamwright.core.policies.placing import Needs
from teamwright.store.acts.act import Context
from teamwright.store.acts.jobs import BeginJob
from teamwright.store.acts.members import AddMember
from teamwright.store.tables.rows.agents import agent_number
from teamwright.store.tables.rows.processes import Lease, process_number
from teamwright.store.tables.rows.remotes import (
    Remote,
    end_remote,
    find_remote,
    forget_losses,
    insert_remote,
    place_waiting,
    select_unclaimed,
    wait_words,
)

PASSED_OVER = 2  # a value of `draining`: the worker takes nothing, and may come back
_encoder = msgspec.json.Encoder()


class OfferSlots(Struct, frozen=True):
    """From now on a worker may be given agents."""

    name: str
    slots: int
    labels: tuple[tuple[str, str], ...] = ()
    providers: tuple[str, ...] = ()
    bypass: bool = False

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand()

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        sql = """
            INSERT INTO workers (process, name, slots, labels, providers, bypass) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (process) DO UPDATE SET draining = 0
        """
        texts = (_encoder.encode(self.labels).decode(), _encoder.encode(self.providers).decode())
        db.execute(sql, (ctx.process, self.name, self.slots, *texts, self.bypass))
        place_waiting(db, ctx.now)


class DrainWorker(Struct, frozen=True):
    """A worker takes nothing new; what it was given and has not begun goes to others."""

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand()

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        db.execute("UPDATE workers SET draining = 1 WHERE process = ?", (ctx.process,))
        sql = "UPDATE remotes SET state = 'waiting', worker = NULL WHERE worker = ? AND state = 'given'"
        db.execute(sql, (ctx.process,))
        place_waiting(db, ctx.now)


class PassOver(Struct, frozen=True):
    """A living worker has not claimed within its lease what it was given: others get that, and it gets nothing more
    until it offers its slots again. False if it has claimed all."""

    worker: ProcessId

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand()

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        late = [remote for remote in select_unclaimed(db, ctx.now) if remote.worker == self.worker]
        for remote in late:
            sql = "UPDATE remotes SET state = 'waiting', worker = NULL, since = ? WHERE agent = ?"
            db.execute(sql, (ctx.now, remote.agent))
        if late:
            sql = "UPDATE workers SET draining = ? WHERE process = ? AND draining = 0"
            db.execute(sql, (PASSED_OVER, self.worker))
            place_waiting(db, ctx.now)
        return bool(late)


class BeginRemote(Struct, frozen=True):
    """Give a job or a member of a team to a worker, with its agent and its first letter: all or nothing.

    Without an agent of its own, the job is another run of one that has ended.
    """

    agent: AgentId
    charter: str  # the name of an object
    needs: Needs
    job: BeginJob | None = None
    member: AddMember | None = None

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Member | Refused | None:
        made: Member | Refused | None = None
        if self.job is not None:
            self.job.apply(db, ctx)
            session = self.job.session
        elif self.member is not None:
            made, session = self.member.apply(db, ctx), self.member.draft.session
            if isinstance(made, Refused) or made.agent != self.agent:  # already made by the same call
                return made
        else:
            raise StoreError("Nothing was stored: a remote agent is a job or a member of a team.")
        team = made.team if made is not None else ""
        new = Remote(
            self.agent, session, team, "waiting", None, self.charter, self.needs, "", 0, 0, ctx.now, ctx.now, ""
        )
        insert_remote(db, new)
        place_waiting(db, ctx.now)
        return made


class ClaimRemote(Struct, frozen=True):
    """Take the right to run an agent that was given to this worker. Any earlier holder has lost it."""

    agent: AgentId

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand()

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Lease | Refused:
        found = find_remote(db, self.agent)
        if found is None or found.worker != ctx.process or found.state == "ended" or ctx.process is None:
            return Refused("held", f"Agent {self.agent} was not given to this worker, or is not any more.")
        sql = """
            INSERT INTO leases (agent, process, epoch) VALUES (?, ?, 1)
            ON CONFLICT (agent) DO UPDATE SET process = excluded.process, epoch = epoch + 1 RETURNING epoch
        """
        values = (agent_number(db, self.agent), process_number(db, ctx.process))
        return Lease(ctx.process, db.execute(sql, values).fetchone()[0])


class StartRemote(Struct, frozen=True):
    """An agent works. `progress` counts the lines of its transcript: while they grow, earlier losses do not count."""

    agent: AgentId
    progress: int

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand((self.agent,))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        sql = "UPDATE remotes SET state = 'running', since = ? WHERE agent = ? AND state = 'given'"
        db.execute(sql, (ctx.now, self.agent))
        sql = "UPDATE remotes SET progress = ? WHERE agent = ? AND progress < ?"
        if db.execute(sql, (self.progress, self.agent, self.progress)).rowcount:
            forget_losses(db, self.agent)


class SaveRemote(Struct, frozen=True):
    """What an agent has made so far is in the engine under this name."""

    agent: AgentId
    branch: str

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand((self.agent,))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        db.execute("UPDATE remotes SET branch = ? WHERE agent = ?", (self.branch, self.agent))


class EndRemote(Struct, frozen=True):
    """An agent has ended. False if it had already, or if an unread letter came meanwhile: then it goes on."""

    agent: AgentId
    status: JobStatus
    result: JobResult
    branch: str = ""

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand((self.agent,))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        found = find_remote(db, self.agent)
        if found is None or (self.status == "completed" and not found.team and _waits_for(db, self.agent)):
            return False
        if self.branch:
            db.execute("UPDATE remotes SET branch = ? WHERE agent = ?", (self.branch, self.agent))
        ended = end_remote(db, found, self.status, self.result, ctx.now)
        place_waiting(db, ctx.now)
        return ended


class StopRemote(Struct, frozen=True):
    """Have its worker end it; without a worker it ends now. False if it had already ended."""

    agent: AgentId
    why: str = ""

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        found = find_remote(db, self.agent)
        if found is None or found.state == "ended":
            return False
        if found.worker is None:
            summary = f"it was stopped before a worker had it{f': {self.why}' if self.why else ''}"
            return end_remote(db, found, "killed", JobResult(error=self.why, summary=summary), ctx.now)
        sql = "UPDATE remotes SET state = 'stopping', why = ? WHERE agent = ?"
        db.execute(sql, (self.why, self.agent))
        return True


class ExpireRemote(Struct, frozen=True):
    """Fail an agent that no worker could be found for in this time. False if one was, or if it has not waited so
    long."""

    agent: AgentId
    seconds: float

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        found = find_remote(db, self.agent)
        if found is None or found.state != "waiting" or found.since + self.seconds * 1000 > ctx.now:
            return False
        why = f"it waited {self.seconds:g} s for {wait_words(db, found)}"
        return end_remote(db, found, "failed", JobResult(error=why, summary=f"failed: {why}"), ctx.now)


# --- what only the lead's process can decide


class AskLead(Struct, frozen=True):
    """A worker's question to the process that leads: about a call, or for its hooks. A known id changes nothing."""

    id: str
    agent: AgentId  # that was given to the worker
    kind: Literal["call", "hook"]
    body: dict[str, Any]

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand((self.agent,))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        sql = "INSERT INTO consults (id, agent, kind, body, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
        db.execute(sql, (self.id, self.agent, self.kind, _encoder.encode(self.body), ctx.now))
        place_waiting(db, ctx.now)  # while it waits, another agent may work


class AnswerWorker(Struct, frozen=True):
    """Answer a question; the first answer counts. False if there was one, or if nobody asks any more."""

    id: str
    answer: dict[str, Any]

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        sql = "UPDATE consults SET answer = ? WHERE id = ? AND answer IS NULL"
        return db.execute(sql, (_encoder.encode(self.answer), self.id)).rowcount > 0


class DropQuestion(Struct, frozen=True):
    """Delete a question that was read, or is not needed any more."""

    id: str

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        row = db.execute("SELECT agent FROM consults WHERE id = ?", (self.id,)).fetchone()
        return Demand((row[0],) if row else ())

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        db.execute("DELETE FROM consults WHERE id = ?", (self.id,))


def _waits_for(db: sqlite3.Connection, agent: AgentId) -> bool:
    sql = "SELECT 1 FROM letters WHERE agent = (SELECT n FROM agents WHERE id = ?) AND delivered_at IS NULL LIMIT 1"
    return db.execute(sql, (agent,)).fetchone() is not None
