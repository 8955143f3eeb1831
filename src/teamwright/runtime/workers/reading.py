"""Shows what a job on a worker does, from its transcript as it arrives here."""

from pathlib import Path

from teamwright.core.data.event import JobProgressed, Record, Replied
from teamwright.core.data.letter import Figures
from teamwright.core.ids import AgentId
from teamwright.runtime.jobs.jobs import Job
from teamwright.runtime.jobs.outputs import OutputFile
from teamwright.runtime.services import Services
from teamwright.store.files.transcripts import TranscriptTail
from teamwright.store.tables.state import now_ms


class JobReader:
    """Shows new lines of a job in its output file, and to watchers."""

    def __init__(self, services: Services, job: Job, output: OutputFile, path: Path) -> None:
        self._services, self._job, self._output, self._path = services, job, output, path
        known = services.bus.agents.get(AgentId(job.id), 0)
        self._tail = TranscriptTail(path, known)
        self._calls = self._tokens = 0

    def read(self) -> None:
        with self._services.supervisor.trouble.kept("what a remote agent does"):
            self.read_rest()

    def read_rest(self) -> None:
        if not self._path.is_file():
            return
        agent, job = AgentId(self._job.id), self._job
        for n, line in self._tail.read():
            self._services.bus.publish(Record(agent, n, line.at, line.event), elsewhere=True)
            self._output.note(line.event)
            if isinstance(line.event, Replied):
                calls = line.event.message.calls
                self._calls, self._tokens = self._calls + len(calls), self._tokens + line.event.usage.total
                figures = Figures(self._tokens, self._calls, now_ms() - job.started)
                progress = JobProgressed(job.id, job.description, figures, calls[-1].name if calls else "")
                self._services.tell(job.owner, progress)
