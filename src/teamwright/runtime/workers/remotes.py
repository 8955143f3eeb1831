"""Agents of this session that run on workers: sends them there, follows what they do, and reports their ends."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import msgspec
from msgspec import Struct

from teamwright.core.data.charter import Charter, encode_charter
from teamwright.core.data.code import Author, BranchBack, Journey, Landed
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import TeamChanged, Warned
from teamwright.core.data.job import JobResult
from teamwright.core.data.letter import Letter, Prompt, Sender
from teamwright.core.data.message import Text
from teamwright.core.data.team import ProcessId
from teamwright.core.errors import TeamwrightError, ToolError
from teamwright.core.ids import AgentId, CallId, JobId, SessionId, new_letter_id
from teamwright.core.permissions.consent import Mode
from teamwright.core.policies.placing import Needs, cannot_travel, left_behind
from teamwright.core.ports import ToolContext
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.sub_agents import AgentRecord
from teamwright.runtime.concurrency.races import first
from teamwright.runtime.jobs.jobs import Job
from teamwright.runtime.jobs.outputs import OutputFile
from teamwright.runtime.services import Services
from teamwright.runtime.workers.answering import Answering
from teamwright.runtime.workers.reading import JobReader
from teamwright.store.acts.jobs import BeginJob
from teamwright.store.db.database import Database
from teamwright.store.files.paths import SessionFiles
from teamwright.store.tables.jobs import OWED, JobRow, JobTable, NewAgent
from teamwright.store.tables.remotes import BeginRemote, Remote, RemoteTable

if TYPE_CHECKING:
    from teamwright.core.data.team import Member
    from teamwright.store.acts.members import AddMember

_LOOK = 1.0  # seconds between looks without news
_PAUSE = 0.02  # seconds between looks, at least: many changes make one look
_REST = 4  # times as long as a look took, between looks: with many agents they must not take all the time


class Draft(Struct, frozen=True, kw_only=True):
    """An agent that is to run on a worker."""

    agent: AgentId
    name: str
    definition: AgentDefinition
    model: str
    parent: Agent
    effort: Any = None
    mode: Mode | None = None  # its own
    description: str = ""
    call: CallId | None = None


class Sent(Struct, frozen=True):
    """What the engine holds of an agent before it exists."""

    charter: str
    needs: Needs
    notes: tuple[str, ...] = ()


class Code(Protocol):
    """How code travels from this repository and back."""

    async def depart(self, cwd: Path, fetch: str) -> tuple[Journey, Author]:
        """Put into the engine what it lacks of the checked-out code, unless workers `fetch` that. Raises ToolError."""
        ...

    async def land(self, name: str, agent: AgentId, back: BranchBack) -> Landed:
        """Make a branch of this repository."""
        ...


class RemoteDeps(Struct, frozen=True, kw_only=True):
    """What remote agents need to know of the session."""

    session: SessionId
    database: Database
    charter: Callable[[Draft, Journey, Author], Charter]
    put: Callable[[str, bytes], Awaitable[None]]  # stores an object in the engine
    follow: Callable[[AgentId, SessionFiles, Callable[[], None]], Coroutine[Any, Any, None]]
    fetch: Callable[[AgentId, SessionFiles], Awaitable[None]]
    url: Callable[[AgentId], str]
    code: Code
    provider: Callable[[str], str]  # of a model
    wait_seconds: float
    labels: Callable[[AgentDefinition], Mapping[str, str]]
    share_limits: Callable[[], Awaitable[None]]  # learns what the whole session has used


class RemoteAgents:
    def __init__(self, services: Services, deps: RemoteDeps, answering: Answering) -> None:
        self._services, self._deps, self._answering = services, deps, answering
        self._supervisor, self._agents = services.supervisor, services.agents
        self.table = RemoteTable(deps.database)
        self._runs, self._news = False, anyio.Event()
        self._ends: dict[AgentId, anyio.Event] = {}  # of agents that are looked after; set once one has ended
        self._workers: dict[AgentId, ProcessId] = {}  # that last ran each
        self._landed: dict[AgentId, str] = {}  # the branch that has been fetched from each
        self._landing = anyio.Lock()
        self._followed: set[AgentId] = set()
        self._shortages: set[str] = set()  # that the person knows

    # --- sending

    async def prepare(self, draft: Draft) -> Sent:
        """Put code and charter into the engine before anything names them."""
        if why := cannot_travel(draft.definition):
            raise ToolError(why)
        journey, author = await self._deps.code.depart(draft.parent.desk.cwd, draft.definition.remote.fetch)
        charter = self._deps.charter(draft, journey, author)
        data = encode_charter(charter)
        name = _digest(data)
        await self._deps.put(f"charter/{name}", data)
        mode = charter.own_mode or charter.mode
        labels = tuple(sorted(self._deps.labels(draft.definition).items()))
        needs = Needs(self._deps.provider(draft.model), labels, mode == "bypassPermissions")
        return Sent(name, needs, tuple(note for note in (journey.note, left_behind(draft.definition)) if note))

    async def launch(self, draft: Draft, prompt: str, ctx: ToolContext) -> tuple[Job, AgentRecord]:
        """Start a job. It exists once this returns, even if this process is killed then."""
        sent, parent = await self.prepare(draft), draft.parent
        await parent.sync()  # the call is in the engine before what it makes
        job = self._job(draft.agent, parent.id, draft.description, ctx.call_id, 1)
        job.notes = sent.notes
        sender = Sender("agent", parent.name, parent.id)
        letter = Letter(new_letter_id(), draft.agent, sender, Prompt((Text(prompt),)))
        kind, depth = draft.definition.name, parent.depth + 1
        row = NewAgent(draft.agent, self._deps.session, parent.id, kind, draft.name, depth)
        with anyio.CancelScope(shield=True):
            await self.table.begin(BeginRemote(draft.agent, sent.charter, sent.needs, self._begun(job, row, letter)))
            self._supervisor.jobs.adopt(job)
            self._look_after(job)
            job.notes += await self.waits(draft.agent, draft.name)
        return job, AgentRecord(draft.agent, draft.name, kind, parent.id, depth, draft.description, 1)

    async def enlist(self, sent: Sent, member: "AddMember") -> Any:
        """Add a teammate together with its remote agent."""
        return await self.table.begin(BeginRemote(member.draft.agent, sent.charter, sent.needs, member=member))

    async def waits(self, agent: AgentId, name: str) -> tuple[str, ...]:
        """What a new agent waits for, for its call's result. The person hears of each shortage once."""
        found = await self.table.find(agent)
        if found is None or not (shortage := await self.table.waits_for(found)):
            return ()
        if shortage not in self._shortages:
            self._shortages.add(shortage)
            self._services.tell(agent, Warned(f"{name} waits for {shortage}."))
        return (f"It waits for {shortage}.",)

    async def resume_job(self, known: AgentRecord, owner: AgentId, call: CallId | None) -> Job | None:
        """After a letter is stored: an agent at work reads it there; one that has ended goes on, on some worker."""
        found = await self.table.find(known.id)
        if found is None or found.state != "ended":
            return None
        job = self._job(known.id, owner, known.description, call, known.run)
        with anyio.CancelScope(shield=True):
            begun = self._begun(job, None, None)
            await self.table.begin(BeginRemote(known.id, found.charter, found.needs, begun))
            self._supervisor.jobs.adopt(job)
            self._look_after(job)
        return job

    async def is_remote(self, agent: AgentId) -> bool:
        return await self.table.find(agent) is not None

    def _begun(self, job: Job, row: NewAgent | None, letter: Letter | None) -> BeginJob:
        what = (job.kind, job.call, job.description, True, job.started)
        return BeginJob(job.id, job.run, self._deps.session, job.owner, *what, row, letter)

    def _job(self, agent: AgentId, owner: AgentId, description: str, call: CallId | None, run: int) -> Job:
        output = self._agents.output(agent)
        job = Job(
            JobId(agent), "remote", owner=owner, output=output, description=description, call=call, background=True
        )
        job.run, job.url = run, self._deps.url(agent)
        return job

    # --- what becomes of them

    async def resume(self, rows: Sequence[JobRow]) -> None:
        """Take up jobs of an earlier process: look after those at work, and tell ends that nobody was told of."""
        latest = {row.id: row for row in rows if row.kind == "remote"}
        for row in latest.values():
            job = self._job(AgentId(row.id), row.owner, row.description, row.call, row.run)
            job.started = row.started
            if row.status == "running":
                self._supervisor.jobs.adopt(job)
                self._look_after(job)
            elif row.notice == OWED:
                self._supervisor.jobs.adopt(job)
                self._supervisor.launch(partial(self._conclude, job))

    def _look_after(self, job: Job) -> None:
        agent = AgentId(job.id)
        self._ends[agent] = anyio.Event()
        self._supervisor.launch(partial(self._watch, job, self._ends[agent]))
        self.open()

    def open(self) -> None:
        """Watch what workers do from now on."""
        if not self._runs:
            self._runs = True
            self._supervisor.launch(self.run)

    async def _watch(self, job: Job, ended: anyio.Event) -> None:
        agent = AgentId(job.id)
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow_job, job)
            with job.scope:
                await ended.wait()
            if not ended.is_set():
                await self.stop(agent, job.stopped_because)
                await ended.wait()
            group.cancel_scope.cancel()
        await self._conclude(job)

    async def stop(self, agent: AgentId, why: str = "") -> bool:
        """Have its worker end it; False if it had already ended."""
        done = await self.table.stop(agent, why)
        self.announce()
        return done

    async def ended(self, agent: AgentId) -> None:
        """Return when nobody runs it any more."""
        self.open()
        while (found := await self.table.find(agent)) is not None and found.state != "ended":
            news = self._news
            with anyio.move_on_after(_LOOK):
                await news.wait()

    async def _follow_job(self, job: Job) -> None:
        agent, output = AgentId(job.id), OutputFile(job.output)
        files = self._agents.files_of(agent)
        reader = JobReader(self._services, job, output, files.agent(agent))
        await self._deps.follow(agent, files, reader.read)

    async def _conclude(self, job: Job) -> None:
        """The job's end is stored: fetch what it has made, then tell."""
        agent = AgentId(job.id)
        jobs, files = self._supervisor.jobs, self._agents.files_of(agent)
        self._ends.pop(agent, None)
        await self._deps.fetch(agent, files)
        reader = JobReader(self._services, job, OutputFile(job.output), files.agent(agent))
        reader.read_rest()
        row = await JobTable(self._deps.database).find(job.id, job.run)
        jobs.settled(job, row.status if row else "killed", row.result if row else JobResult())
        await jobs.notify(job, await self._fetch_work(agent))

    async def _fetch_work(self, agent: AgentId) -> str:
        """Fetch its work as a branch. Returns words about it; empty if it has changed nothing."""
        found = await self.table.find(agent)
        if found is None or not found.branch:
            return ""
        try:
            return (await self._land(found)).words
        except TeamwrightError as error:
            return f"What it has made could not be fetched: {error}"

    async def _bring_in(self, row: Remote) -> None:
        """Fetch the branch of a teammate after each turn that changed something."""
        if row.team and row.branch and self._landed.get(row.agent) != row.branch:
            async with self._landing:
                if self._landed.get(row.agent) != row.branch:
                    await self._fetch_work(row.agent)

    async def bring_in_all(self) -> None:
        """Before the program ends: also fetch what a last turn made, of which this process may have only just heard."""
        for row in await self._own():
            await self._bring_in(row)

    async def _land(self, remote: Remote) -> Landed:
        back = msgspec.json.decode(remote.branch, type=BranchBack)
        known = self._services.spawner.known.get(remote.agent)
        name = known.name if known and known.name != known.kind else remote.agent
        teams = self._services.open_teams
        if remote.team and teams is not None and (member := teams.roster.find(remote.team, remote.agent)) is not None:
            name = member.name
        landed = await self._deps.code.land(name, remote.agent, back)
        self._landed[remote.agent] = remote.branch
        return landed

    # --- news

    def announce(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def run(self) -> None:
        """Look whenever others have written: the log is the bell."""
        while True:
            pause, began = _LOOK, time.monotonic()
            with self._supervisor.trouble.kept("looking at what workers do"):
                seen = await self._deps.database.data_version()
                await self._look()
                self.announce()
                pause = max(_PAUSE, _REST * (time.monotonic() - began))
                if seen == await self._deps.database.data_version():
                    await first(partial(self._deps.database.pause, _LOOK), self._news.wait)
            await anyio.sleep(pause)

    async def _look(self) -> None:
        teams, rows, now = self._services.open_teams, await self._own(), await self.table.now()
        live = {row.agent: row for row in rows}
        for agent, ended in list(self._ends.items()):
            if agent not in live and await self._is_over(agent):
                ended.set()
        for row in rows:
            await self._look_at(row, now)
        await self._answering.look(live)
        await self._deps.share_limits()
        if teams is not None:
            await self._look_at_teammates(live)

    async def _own(self) -> list[Remote]:
        teams = self._services.open_teams
        led = frozenset(teams.roster.led_here()) if teams is not None else frozenset[str]()
        return [row for row in await self.table.all_open() if row.session == self._deps.session or row.team in led]

    async def _is_over(self, agent: AgentId) -> bool:
        found = await self.table.find(agent)
        return found is None or found.state == "ended"

    async def _look_at(self, row: Remote, now: int) -> None:
        if row.state == "waiting" and now - row.since > self._deps.wait_seconds * 1000:
            await self.table.expire(row.agent, self._deps.wait_seconds)
        await self._bring_in(row)
        if row.state != "running" or row.worker is None:
            return
        before = self._workers.get(row.agent)
        self._workers[row.agent] = row.worker
        if before not in (None, row.worker):
            await self._tell_moved(row)

    async def _tell_moved(self, row: Remote) -> None:
        """Tell people. The model is not told: it is the same agent."""
        where = await self._machine(row) or "another worker"
        teams = self._services.open_teams
        member = teams.roster.find(row.team, row.agent) if teams is not None and row.team else None
        if member is not None:
            self._services.tell(row.agent, TeamChanged(member.team, "moved", member.address, where))
        elif (known := self._services.spawner.known.get(row.agent)) is not None:
            self._services.tell(row.agent, Warned(f"{known.name} ({row.agent}) has moved to {where}."))

    async def _machine(self, row: Remote) -> str:
        return next((w.name for w in await self.table.workers() if w.process == row.worker), "")

    async def place_of(self, member: "Member") -> str:
        """Where it works, and on which branch, in words."""
        from teamwright.host.git.worktrees.record import branch_of  # noqa: PLC0415

        row = await self.table.find(member.agent)
        machine = await self._machine(row) if row is not None else ""
        where = f"on the machine {machine}" if machine else "on another machine as soon as a worker has room"
        return f"{where}, on the branch {branch_of(member.name)}: it is here whenever it tells you something"

    async def left_at_work(self) -> str:
        """One line about agents that go on without this program; empty if there are none."""
        teams = self._services.open_teams
        mates = {m.agent: m for m in teams.mates()} if teams is not None else {}
        rows = [row for row in await self.table.all_open() if row.session == self._deps.session or row.agent in mates]
        working = [row.agent for row in rows if row.agent not in mates or mates[row.agent].state != "idle"]
        if not working:
            return ""
        named = ", ".join(self._deps.url(agent) for agent in working)
        return f"still at work on workers: {named}; `teamwright jobs --stop ID --engine URL` ends one"

    # --- teammates

    def follow(self, agent: AgentId) -> None:
        """Show here what a teammate does."""
        self.open()
        if agent not in self._followed:
            self._followed.add(agent)
            files = self._agents.files_of(agent)
            self._supervisor.launch(partial(self._deps.follow, agent, files, self._heard_teammate))

    def _heard_teammate(self) -> None:
        if (teams := self._services.open_teams) is not None:
            teams.wakeups.heard()

    async def _look_at_teammates(self, live: Mapping[AgentId, Remote]) -> None:
        """Shut down teammates that were given up, so that nobody waits for them."""
        teams = self._services.open_teams
        for team in teams.roster.led_here() if teams is not None else ():
            for member in teams.roster.mates(team) if teams is not None else ():
                if member.backend != "remote":
                    continue
                self.follow(member.agent)
                if member.agent not in live and await self._is_over(member.agent):
                    await self._bury(member.agent, member.team)

    async def _bury(self, agent: AgentId, team: str) -> None:
        teams = self._services.open_teams
        assert teams is not None
        await teams.roster.refresh(team)
        member, found = teams.roster.find(team, agent), await self.table.find(agent)
        if member is not None and member.state != "shutdown":
            why = found.why if found is not None else ""
            await teams.teammates.bury(member, f"{member.name} cannot go on: {why}" if why else "")


def _digest(data: bytes) -> str:
    import hashlib  # noqa: PLC0415

    return hashlib.sha256(data).hexdigest()
