"""Letters about the landing queue: to the lead when work is ready, to the owner when work was sent back."""

from teamwright.core.data.landing import LandDraft, LandEntry, task_words
from teamwright.core.data.letter import Letter, Said, Sender
from teamwright.core.data.letters.tasks import SYSTEM_SENDER
from teamwright.core.data.team import Mail, Member
from teamwright.core.ids import AgentId, LetterId


def ready_mail(lead: Member, entry: LandEntry) -> Mail:
    """The member's word to its lead that its work is ready."""
    draft = entry.draft
    task = f" (task {task_words(draft)})" if draft.task is not None else ""
    words = (
        f"The branch {draft.branch}{task} is ready to land on {draft.target}. It is number {entry.place} in the queue; "
        "Land with action `run` tries, checks and lands what waits there."
    )
    sender = Sender("agent", draft.owner, draft.agent)
    letter = Letter(_id("r", draft, entry), lead.agent, sender, Said(words))
    return Mail(letter, lead.team, draft.owner, lead.name, words, control=True)


def returned_letter(entry: LandEntry, reason: str, output: str, to: AgentId, *, reopened: bool) -> Letter:
    """Tells the owner what happened, quoting git or the check as data."""
    draft = entry.draft
    again = f" Task {task_words(draft)} is open again." if reopened else ""
    words = (
        f"Your branch {draft.branch} did not land on {draft.target}: {reason}.{again} Fix it on the same branch, "
        f"commit, and say that it is ready with Land. The commit that was tried is {draft.tip[:12]}."
    )
    text = f"{words}\n\nThe output, as it was printed:\n{output}" if output.strip() else words
    return Letter(_id("b", draft, entry), to, SYSTEM_SENDER, Said(text, f"{draft.branch} came back"))


def returned_mail(letter: Letter, to: Member) -> Mail:
    assert isinstance(letter.body, Said)
    return Mail(letter, to.team, SYSTEM_SENDER.name, to.name, letter.body.text, letter.body.summary, control=True)


def _id(kind: str, draft: LandDraft, entry: LandEntry) -> LetterId:
    return LetterId(f"land-{kind}-{entry.id}-{draft.tip[:12]}-{entry.tries}")
