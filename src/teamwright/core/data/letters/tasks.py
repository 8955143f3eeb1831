"""Letters about tasks: to a new owner, and to the lead when tasks become free."""

from collections.abc import Sequence

import msgspec

from teamwright.core.data.letter import SYSTEM, Letter, Said, Sender, Signal
from teamwright.core.data.tasks import Actor, Task, claim_id
from teamwright.core.data.team import Mail, Member, iso
from teamwright.core.ids import AgentId, LetterId

CLAIM_SENDER = "task-list"  # sender of the letter about a task that was claimed for a teammate
SYSTEM_SENDER = Sender(SYSTEM.kind, "teamwright")


def assignment_letter(task: Task, team: str, owner: AgentId, giver: Actor, at: int) -> Letter:
    """Tells an owner that it was given the task, or that its task is no longer blocked."""
    said = {
        "type": "task_assignment",
        "taskId": str(task.id),
        "subject": task.subject,
        "description": task.description,
        "assignedBy": giver.name,
        "timestamp": iso(at),
    }
    line = msgspec.json.encode(said).decode()
    id = LetterId(f"a-{team}-{task.id}-{task.epoch}-{len(task.former)}")
    return Letter(id, owner, Sender("agent", giver.name, giver.agent), Signal("task_assignment", line))


def claim_letter(task: Task, team: str, agent: AgentId) -> Letter:
    """The letter about a task claimed for a teammate. The text is the author's, so the author is named outside it,
    where no text can pose as another."""
    made = f"made by {task.author}" if task.author else ""
    why = f"{task.assigner} has given it to you" if task.assigner else "you were free, and it was the first open one"
    text = (
        f"Task #{task.id} is yours now: {why}.\n\n#{task.id}: {task.subject}\n\n{task.description}\n\n"
        f"{f'It was {made}. ' if made else ''}"
        "Do it, mark it completed with TaskUpdate, then go on with further open tasks (TaskList). "
        "If it is for somebody else, give it to them (TaskUpdate, owner); if you cannot do it, give it back (status "
        "pending) and tell team-lead why: you are not given it again."
    )
    sender = Sender("system", CLAIM_SENDER)
    return Letter(claim_id(team, task), agent, sender, Said(text, f"task #{task.id}, {made}" if made else ""))


def freed_mail(lead: Member, gone: AgentId, why: str, freed: Sequence[Task], at: int) -> Mail:
    """Tells the lead that a member is gone (`why` says how) and which open tasks returned to the list."""
    tasks = ", ".join(f"#{task.id} {task.subject}" for task in freed)
    words = f"{why}." + (f" Free again: {tasks}." if tasks else "")
    letter = Letter(LetterId(f"f-{gone}-{at}"), lead.agent, SYSTEM_SENDER, Said(words))
    return Mail(letter, lead.team, SYSTEM_SENDER.name, lead.name, words, control=True)
