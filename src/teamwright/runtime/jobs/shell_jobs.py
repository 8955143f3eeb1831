"""Shell commands and monitors as jobs: started by a tool call, owned by the supervisor, reported when they end.

A command that is silent for long is reported once before that. The lines of a monitor become letters.
"""

import threading
import traceback
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
from msgspec import Struct

from teamwright.core.data.job import LETTERS, JobResult
from teamwright.core.data.letter import SYSTEM, Figures, JobStatus, Letter, Lines, Notice
from teamwright.core.errors import StoreError, ToolError
from teamwright.core.ids import LetterId, new_job_id
from teamwright.core.ports import ToolContext
from teamwright.host.process.bash import describe_end, run_script
from teamwright.host.process.capture import Capture, plain
from teamwright.host.process.run import ProcessEnd
from teamwright.osfiles.private import make_dir
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.jobs.jobs import Job
from teamwright.runtime.sandbox.use import ProgramRun, RunPlace
from teamwright.store.tables.state import now_ms

MOST_RESULT = 4_000  # characters of the output in the notice of an end
MOST_OF_SUCCESS = 1_000  # in that of a success
LAST_WORDS = 1_000  # in that of a silence
MOST_LINES = 8_000  # bytes of a monitor's lines in one letter
MINUTE = 60.0


class Order(Struct, frozen=True, kw_only=True):
    """What to run, where and for how long; `limit` None: as long as it takes."""

    kind: Literal["shell", "monitor"]
    script: bytes
    cwd: Path
    run: ProgramRun
    description: str
    limit: float | None = None


class Tap(Capture):
    """The output file. For a monitor also the lines not yet passed on: the newest are kept, the others counted."""

    def __init__(self, output: Path, *, lines: bool) -> None:
        super().__init__(output, at_once=True)
        self.heard = anyio.current_time()
        self.news = anyio.Event()
        self.keeps_lines = lines
        self._fresh, self._lost = bytearray(), 0
        self.letters = 0  # sent so far
        self.place: RunPlace | None = None  # where the command runs, once it does
        self.refused = ""  # words on what the sandbox refused and undid, when it has ended
        self._lock = threading.Lock()  # bytes come from a thread, because they go to the disk

    def add(self, data: bytes) -> None:
        super().add(data)
        if not self.keeps_lines:
            return
        with self._lock:
            self._fresh += data
            if (over := len(self._fresh) - MOST_LINES) > 0:
                self._lost += over
                del self._fresh[:over]

    def tell(self) -> None:
        self.heard = anyio.current_time()
        self.news.set()

    def take(self, *, half_lines: bool) -> str:
        """What to pass on now; a line that has not ended stays, unless this is the end."""
        with self._lock:
            end = len(self._fresh) if half_lines else self._fresh.rfind(b"\n") + 1
            data, lost = bytes(self._fresh[:end]), self._lost
            del self._fresh[:end]
            if data:
                self._lost = 0
        note = f"[... {lost:,} bytes left out; they are in the output file ...]\n" if lost else ""
        text = plain(data.decode(errors="replace"))
        return note + text if text.strip() else ""


class ShellJobs:
    """`clean` makes a program's output safe to show; a command silent for `silence` seconds is reported."""

    def __init__(
        self,
        supervisor: Supervisor,
        output: Callable[[str], Path],
        log: Callable[[str], None],
        *,
        clean: Callable[[str], str],
        silence: float,
        letters_a_minute: int = LETTERS,
    ) -> None:
        self._supervisor, self._output, self._log = supervisor, output, log
        self._clean, self._silence, self._most_letters = clean, silence, letters_a_minute

    async def start(self, order: Order, ctx: ToolContext) -> Job:
        """Start a job that belongs to the caller and outlives the call. Its output file is there when this returns."""
        id = new_job_id()
        job = Job(
            id,
            order.kind,
            owner=ctx.agent,
            output=self._output(id),
            description=order.description,
            call=ctx.call_id,
            background=True,
        )
        make_dir(job.output.parent)
        with anyio.CancelScope(shield=True):  # a row without its command would be reported as a lost one
            await self._supervisor.jobs.begin(job)
            tap = Tap(job.output, lines=order.kind == "monitor")
            self._supervisor.launch(partial(self._run, job, order, tap))
        return job

    # --- the boundary: whatever happens inside becomes exactly one end

    async def _run(self, job: Job, order: Order, tap: Tap) -> None:
        found: ProcessEnd | str | None = None
        try:
            with job.scope:
                found = await self._follow(job, order, tap)
        except Exception as bug:  # noqa: BLE001 -- the job's boundary
            self._log(f"job {job.id} failed: " + "".join(traceback.format_exception(bug)))
            found = f"internal error: {bug!r}; the log has the details"
        finally:
            tap.close()
            with anyio.CancelScope(shield=True):
                await self._conclude(job, order, found, tap)

    async def _follow(self, job: Job, order: Order, tap: Tap) -> ProcessEnd | str:
        """How it ended, or in words why it could not begin."""
        found: ProcessEnd | str = ""
        async with anyio.create_task_group() as group:
            group.start_soon(self._pass_on if order.kind == "monitor" else self._mind_silence, job, order, tap)
            try:
                async with order.run.place() as place:
                    tap.place = place
                    found, _ = await run_script(
                        order.script,
                        cwd=order.cwd,
                        env=place.env,
                        limit=order.limit,
                        capture=tap,
                        on_output=tap.tell,
                        box=place.box,
                    )
                    printed = "" if tap.keeps_lines else tap.text()  # of lines it was said when they were sent
                    if refused := place.refused(printed, str(order.cwd)):
                        tap.refused = refused.words(place.mode)
            except ToolError as fault:
                found = str(fault)
            finally:
                group.cancel_scope.cancel()
        return found

    async def _conclude(self, job: Job, order: Order, found: ProcessEnd | str | None, tap: Tap) -> None:
        verdict = _judge(job, order, found)
        rest = tap.take(half_lines=True)
        result = JobResult(
            self._printed(tap, verdict),
            verdict.error,
            f"{_name(job)} {verdict.words}",
            Figures(duration_ms=now_ms() - job.started),
            verdict.code,
        )
        try:
            await self._supervisor.jobs.finish(job, verdict.status, result)
            if rest:
                await self._send_lines(job, order, tap, rest)
            await self._supervisor.jobs.notify(job)
        except StoreError as fault:
            self._supervisor.trouble.report(fault, f"the end of job {job.id} could not be recorded")
            self._supervisor.jobs.close(job)

    def _printed(self, tap: Tap, verdict: "_Verdict") -> str:
        """The end of its output, except for a monitor, whose lines were already sent; and what it was refused."""
        most = MOST_OF_SUCCESS if verdict.status == "completed" else MOST_RESULT
        printed = "" if tap.keeps_lines else _last(self._clean(plain(tap.text())), most)
        return "\n".join(filter(None, (printed, self._clean(tap.refused))))

    # --- reports while it runs

    async def _mind_silence(self, job: Job, _: Order, tap: Tap) -> None:
        """Report a long silence, once: the command may be stuck, and only its owner can tell."""
        rest = self._silence
        while rest > 0:
            await anyio.sleep(rest)
            rest = tap.heard + self._silence - anyio.current_time()
        summary = (
            f"{_name(job)} still runs, but has printed nothing for {self._silence:g} s. It may wait for input, which "
            "it never gets, or be stuck: look at its output, and stop it by TaskStop if nothing is to come of it."
        )
        notice = Notice(
            job.id,
            "running",
            summary,
            _last(self._clean(plain(tap.text())), LAST_WORDS),
            str(job.output),
            job.call,
            Figures(duration_ms=now_ms() - job.started),
        )
        await self._post(Letter(LetterId(f"s-{job.id}-{job.run}"), job.owner, SYSTEM, notice, "next"))

    async def _pass_on(self, job: Job, order: Order, tap: Tap) -> None:
        """Send lines that come together as one letter; when the minute's letters are used up, the rest waits
        together."""
        sent: deque[float] = deque(maxlen=self._most_letters - 1)  # one is reserved for the end
        while True:
            await tap.news.wait()
            tap.news = anyio.Event()
            if len(sent) == sent.maxlen:
                await anyio.sleep(max(0.0, sent[0] + MINUTE - anyio.current_time()))
            if text := tap.take(half_lines=False):
                sent.append(anyio.current_time())
                await self._send_lines(job, order, tap, text)

    async def _send_lines(self, job: Job, order: Order, tap: Tap, text: str) -> None:
        tap.letters += 1
        hint = tap.place.hint(text, str(order.cwd)) if tap.place else ""
        words = "\n".join(filter(None, (text.rstrip("\n"), hint)))
        body = Lines(job.id, job.description, self._clean(words))
        await self._post(Letter(LetterId(f"w-{job.id}-{tap.letters}"), job.owner, SYSTEM, body, "next"))

    async def _post(self, letter: Letter) -> None:
        """Store all of it or nothing, even if the command ends just now."""
        with anyio.CancelScope(shield=True):
            with self._supervisor.trouble.kept(f"the letter {letter.id} could not be stored"):
                await self._supervisor.post(letter)


class _Verdict(Struct, frozen=True):
    """`words` are for the summary; `error` is set if it did not end well."""

    status: JobStatus
    words: str
    error: str = ""
    code: int | None = None


def _judge(job: Job, order: Order, found: ProcessEnd | str | None) -> _Verdict:
    if found is None:
        words = f"was stopped: {job.stopped_because}" if job.stopped_because else "was stopped"
        return _Verdict("killed", words, f"It {words}.")
    if isinstance(found, str):
        return _Verdict("failed", "failed", found)
    if found.timed_out and order.kind == "monitor":
        words = f"completed: its time limit of {order.limit or 0:g} s was reached and it was stopped"
        return _Verdict("completed", words)
    words, code = describe_end(found, order.limit)
    if not words:
        return _Verdict("completed", "completed (exit code 0)" if code == 0 else "completed", code=code)
    return _Verdict("failed", f"failed: {words[0].lower()}{words[1:]}", f"{words}.", code)


def _name(job: Job) -> str:
    return f'{"Command" if job.kind == "shell" else job.kind.capitalize()} "{job.description}"'


def _last(text: str, most: int) -> str:
    """The end of the text; all of it is in the output file."""
    text = text.rstrip("\n")
    if len(text) <= most:
        return text
    tail = text[-most:]
    tail = tail.partition("\n")[2] if 0 <= tail.find("\n") < most // 4 else tail
    return f"[... what came before this is in the output file ...]\n{tail}"
