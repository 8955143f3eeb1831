"""Owns every agent from its first moment. A caller only joins; it never owns.

Whatever happens inside an agent becomes exactly one end: state final and notice owed, waiters wake, clean-up, letter.
"""

import contextvars
import traceback
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from teamwright.core.data.event import AgentEnded, Event, JobProgressed, Replied
from teamwright.core.data.job import JobKind, JobResult
from teamwright.core.data.letter import SYSTEM, Figures, JobStatus, Letter, Lines, Notice
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, CallId, JobId, LetterId
from teamwright.runtime.agents.agent import Agent, current_agent, current_teammate
from teamwright.runtime.agents.life import MainLife, OnceLife, live
from teamwright.runtime.jobs.jobs import Job, Jobs, letter_id
from teamwright.runtime.services import Services
from teamwright.runtime.trouble import Trouble
from teamwright.store.tables.state import StateStore, now_ms

if TYPE_CHECKING:
    from teamwright.runtime.jobs.outputs import OutputFile
    from teamwright.runtime.side_questions.hand_off import HandOffCheck
    from teamwright.runtime.side_questions.summaries import Summaries

STOP_LIMIT = 10.0  # seconds for a stopped agent to end its tools
SHELL_KINDS = ("shell", "monitor")
KINDS: dict[JobKind, str] = {"agent": "agent", "shell": "command", "monitor": "monitor", "remote": "remote agent"}
RECALL = 5.0  # seconds that a monitor may be silent before an agent that waits only for it is reminded
FORGOTTEN = (
    'Monitor "{}" still runs, and you wait for nothing else. If you need its lines, end your turn again; if not, stop '
    "it with TaskStop. Your last message must hold the whole answer."
)


class Supervisor(Struct, eq=False):
    _services: Services
    jobs: Jobs
    _letters: StateStore
    _log: Callable[[str], None]
    trouble: Trouble
    job_wait: float  # seconds
    _main: Agent | None = None
    group: TaskGroup | None = None  # in which its agents live
    _live: dict[AgentId, Agent] = {}
    _housed: set[AgentId] = set()  # teammates among them
    recall_after: float = RECALL
    asked: int = 0  # how often a person has spoken
    _summaries: "Summaries | None" = None
    _check: "HandOffCheck | None" = None

    def sum_up(self, seconds: float) -> None:
        """Report every so many seconds what agents in the background do."""
        from teamwright.runtime.side_questions.summaries import Summaries  # noqa: PLC0415  # seldom wanted

        self._summaries = Summaries(seconds, self.launch, self._services.tell, self._log)

    def check_hand_offs(self) -> None:
        """Check what agents did before their results are handed over."""
        from teamwright.runtime.side_questions.hand_off import HandOffCheck  # noqa: PLC0415  # seldom wanted

        self._check = HandOffCheck(self._log)

    def agent(self, id: AgentId) -> Agent | None:
        """A living agent; the main agent always lives."""
        return self._main if self._main is not None and id == self._main.id else self._live.get(id)

    @property
    def main(self) -> Agent:
        assert self._main is not None
        return self._main

    @property
    def agents(self) -> list[Agent]:
        return [*([self._main] if self._main else []), *(a for a in self._live.values() if a is not self._main)]

    def ring(self, id: AgentId) -> None:
        if agent := self.agent(id):
            agent.inbox.ring()

    # --- life

    def own(self, main: Agent) -> None:
        """Set the main agent, of the session or of a teammate's process."""
        self._main = main
        main.left_running = partial(self._left_running, main)
        main.inbox.more_comes = partial(self.jobs.unfinished, main.id)

    def start(self, agent: Agent, job: Job) -> None:
        """Start an agent in a fresh context: its task must not inherit its parent's identity."""
        assert self.group is not None
        self._live[agent.id] = agent
        agent.inbox.more_comes = partial(self.jobs.unfinished, agent.id)
        contextvars.Context().run(self.group.start_soon, self._run, agent, job)

    def launch(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start other work in a fresh context. It handles its own errors, except those of the disk."""
        assert self.group is not None
        contextvars.Context().run(self.group.start_soon, self._launched, work)

    async def _launched(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with self.trouble.kept("work in the background"):
            await work()

    def house(self, agent: Agent, live: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Take in a teammate, which lives by a loop of its own until `gone`."""
        self._live[agent.id] = agent
        agent.left_running = partial(self._left_running, agent)
        agent.inbox.more_comes = partial(self.jobs.unfinished, agent.id)
        self._housed.add(agent.id)
        self.launch(live)

    async def gone(self, agent: Agent) -> None:
        self._live.pop(agent.id, None)
        self._housed.discard(agent.id)
        await self._stop_owned(agent.id)

    def teammate_of(self, agent: Agent) -> AgentId | None:
        """The teammate that an agent is, or works for, if any."""
        head = self.head_of(agent).id
        return head if head in self._housed else None

    def head_of(self, agent: Agent) -> Agent:
        """The main agent or the teammate that an agent is, or works for."""
        while agent.id not in self._housed and agent.parent and (above := self.agent(agent.parent)) is not None:
            agent = above
        return agent

    async def _run(self, agent: Agent, job: Job) -> None:
        from teamwright.runtime.jobs.outputs import OutputFile  # noqa: PLC0415

        current_agent.set(agent.id)
        if teammate := self.teammate_of(agent):
            current_teammate.set(teammate)
        output = OutputFile(job.output)
        agent.listen(partial(self._heard, agent, job, output))
        status, error = cast("tuple[JobStatus, str]", ("killed", ""))
        with job.scope:
            try:
                status, error = await self._work(agent)
            except StoreError as fault:
                self.trouble.report(fault, f"agent {agent.id}")
                status, error = "failed", str(fault)
            except Exception as bug:  # noqa: BLE001 -- the agent's boundary
                self._log(f"agent {agent.id} failed: " + "".join(traceback.format_exception(bug)))
                status, error = "failed", f"internal error: {bug!r}; the log has the details"
        with anyio.CancelScope(shield=True):
            await self._conclude(agent, job, status, error)

    async def _work(self, agent: Agent) -> tuple[JobStatus, str]:
        life = OnceLife(agent, self.wait_while_jobs_run)
        await live(life)
        self._live.pop(agent.id, None)
        assert life.end is not None
        return life.end

    async def live_as_main(self, agent: Agent) -> None:
        current_agent.set(agent.id)
        await live(MainLife(agent))

    async def wait_while_jobs_run(self, agent: Agent, waited: float) -> float | None:
        """Like `wait_for_jobs`; None if none of the agent's own jobs runs."""
        owned = self.jobs.unfinished(agent.id)
        return await self.wait_for_jobs(agent, owned, waited) if owned else None

    async def wait_for_jobs(self, agent: Agent, owned: Sequence[Job], waited: float) -> float:
        """Wait for a letter. Commands hold up an end only for a while, agents for as long as they take.

        Returns the seconds for which only commands held it up.
        """
        if not all(job.kind in SHELL_KINDS for job in owned):
            await agent.inbox.wait()
            return 0.0
        began = anyio.current_time()
        with anyio.move_on_after(max(0.0, self.job_wait - waited)) as scope:
            monitors = all(job.kind == "monitor" for job in owned)
            if not (monitors and await self._recall_monitors(agent, owned)):
                await agent.inbox.wait()
        if scope.cancelled_caught:
            why = f"it still ran {self.job_wait:g} s after everything else was done"
            async with anyio.create_task_group() as group:
                for job in owned:
                    group.start_soon(self.stop, job, why)
            with anyio.move_on_after(STOP_LIMIT):
                for job in owned:
                    await job.closed.wait()  # then the letters about them are there
        return anyio.current_time() - began

    async def _recall_monitors(self, agent: Agent, owned: Sequence[Job]) -> bool:
        """Remind the agent, once for each, of silent monitors that alone hold up its end: it may have forgotten them.

        True if the agent was rung for. It must not be waited for again: somebody else may have looked already.
        """
        silent = [job for job in owned if job.status == "running" and not job.named]
        ended = agent.history.ended
        if not silent or ended is None or ended.reason != "done":
            return False
        with anyio.move_on_after(self.recall_after):
            await agent.inbox.wait()
            return True
        for job in silent:
            job.named = True
            figures = Figures(duration_ms=now_ms() - job.started)
            notice = Notice(
                job.id, "running", FORGOTTEN.format(job.description), "", str(job.output), job.call, figures
            )
            await self.post(Letter(LetterId(f"r-{job.id}-{job.run}"), job.owner, SYSTEM, notice))
        return True

    def _left_running(self, agent: Agent, letters: Sequence[Letter]) -> str:
        """Words about jobs that an earlier turn left running, each once, without those that the letters tell of."""
        told = {letter.body.job for letter in letters if isinstance(letter.body, Notice | Lines)}
        left = [job for job in self.jobs.running(agent.id) if job.background and not job.named]
        for job in left:
            job.named = True
        names = ", ".join(f'{KINDS[job.kind]} "{job.description}" ({job.id})' for job in left if job.id not in told)
        return f"[Still running for you: {names}. TaskStop ends one.]" if names else ""

    async def _conclude(self, agent: Agent, job: Job, status: JobStatus, error: str) -> None:
        self._live.pop(agent.id, None)
        if self._summaries is not None:
            self._summaries.forget(agent.id)
        await self._stop_owned(agent.id)
        said = agent.history.last_words
        if agent.halted is None:  # if the disk has stopped it, its transcript stays as it is
            with self.trouble.kept(f"the end of agent {agent.id} could not be recorded"):
                agent.emit(AgentEnded(status, said, error))
                await agent.sync()
        agent.close_transcript()
        result = JobResult(said, error, _summary(agent, job, status, error), self.figures(agent, job))
        try:
            await self.jobs.finish(job, status, result)
            await agent.put_away()
            if job.tree is not None:  # slow, so readers of the end do not wait for it
                job.kept = await self._services.worktrees.close(job.tree)
            warning = await self._check.look(agent) if self._check is not None and status != "killed" else ""
            await self.jobs.notify(job, job.kept.words if job.kept else "", warning)
        except StoreError as fault:
            self.trouble.report(fault, f"the end of job {job.id} could not be recorded")
            await agent.put_away()
            self.jobs.close(job)

    async def _stop_owned(self, owner: AgentId) -> None:
        async with anyio.create_task_group() as group:
            for job in self.jobs.running(owner):
                group.start_soon(self.stop, job)

    # --- what callers do with a job

    async def join(self, job: Job, waiter: Agent, after: float | None = None) -> None:
        """Wait until the job has ended or gone to the background, by somebody's choice or after `after` seconds.

        If the caller is cancelled, so is the job: it belongs to the caller's turn.
        """
        try:
            async with waiter.slot.waiting():
                with anyio.move_on_after(after) as patience:
                    await job.settled.wait()
                if patience.cancelled_caught:
                    await self.jobs.send_to_background(job)
                if not job.background:
                    await job.closed.wait()  # what was kept is part of the result
        except anyio.get_cancelled_exc_class():
            if not job.background:
                with anyio.CancelScope(shield=True):
                    await self.stop(job)
            raise

    async def stop(self, job: Job, why: str = "") -> bool:
        """Cancel the job and wait for its end. False if it had already ended."""
        if job.status != "running":
            return False
        job.stopped_because = job.stopped_because or why
        job.scope.cancel()
        with anyio.move_on_after(STOP_LIMIT):
            await job.ended.wait()
        return True

    async def claim(self, job: Job, call: CallId) -> None:
        """The owner has seen the end by itself: take back the letter, unless it already has it."""
        if await self.jobs.claim(job, call) and (owner := self.agent(job.owner)):
            owner.inbox.forget(letter_id(job.id, job.run))

    async def post(self, letter: Letter) -> None:
        """Durable when it returns; a living agent is woken."""
        await self._letters.post(letter)
        self.ring(letter.to)

    async def stop_all(self) -> None:
        async with anyio.create_task_group() as group:
            for job in self.jobs.running():
                if job.kind != "remote":  # remote agents go on without this program
                    group.start_soon(self.stop, job)

    def job_of(self, id: AgentId) -> Job | None:
        return self.jobs.get(JobId(id))

    # --- progress

    def _heard(self, agent: Agent, job: Job, output: "OutputFile", event: Event) -> None:
        output.note(event)
        if isinstance(event, Replied):
            calls = event.message.calls
            figures = self.figures(agent, job)
            progress = JobProgressed(job.id, job.description, figures, calls[-1].name if calls else "")
            self._services.tell(job.owner, progress)
            if self._summaries is not None:
                self._summaries.heard(agent, job, event, progress)

    def figures(self, agent: Agent, job: Job) -> Figures:
        history, took = agent.history, agent.now() - job.started
        return Figures(history.usage.total, history.tool_uses, took)


def _summary(agent: Agent, job: Job, status: JobStatus, error: str) -> str:
    words = {"completed": "has finished", "failed": "failed", "killed": "was stopped", "running": "is running"}[status]
    return f'Agent "{job.description}" ({agent.name}) {words}{f": {error}" if error else ""}'
