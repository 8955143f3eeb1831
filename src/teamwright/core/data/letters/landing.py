"""Letters about the landing queue: to the lead when work is ready, to the owner when work was sent back."""

from teamwright.core.data.landing import LandDraft, LandEntry, task_words
from teamwright.core.data.letter import Letter, Said
from teamwright.core.data.letters.tasks import SYSTEM_SENDER
from teamwright.core.data.team import Mail, Member
from teamwright.core.ids import AgentId, LetterId


def ready_mail(lead: Member, entry: LandEntry) -> Mail:
    """Tells the lead that a member's work is ready."""
    draft = entry.draft
    task = f" (task {task_words(draft)})" if draft.task is not None else ""
    words = (
        f"{draft.owner} says that the branch {draft.branch}{task} is ready to land on {draft.target}. It is number "
        f"{entry.id} in the landing queue; Land with action `run` tries, checks and lands what waits there."
    )
    letter = Letter(_id("r", draft, entry), lead.agent, SYSTEM_SENDER, Said(words))
    return Mail(letter, lead.team, SYSTEM_SENDER.name, lead.name, words, control=True)


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
