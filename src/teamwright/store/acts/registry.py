"""Every act under the name with which it is written down, and acts as JSON."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from teamwright.core.errors import StoreError
from teamwright.store.acts import (
    bundles,
    hosts,
    jobs,
    landing,
    ledger,
    mail,
    members,
    processes,
    remotes,
    removal,
    requests,
    schedules,
    sessions,
    tasks,
    teams,
)
from teamwright.store.acts.act import Act

ACTS: dict[str, type[Act[Any]]] = {
    "sessions.register": sessions.RegisterSession,
    "sessions.delete": sessions.DeleteSession,
    "sessions.remove": removal.RemoveSession,
    "sessions.purged": removal.SessionPurged,
    "agents.register": sessions.RegisterAgent,
    "letters.post": sessions.PostLetter,
    "letters.withdraw": sessions.WithdrawLetter,
    "letters.delivered": sessions.MarkDelivered,
    "letters.set_aside": sessions.SetLetterAside,
    "letters.drop": mail.DropLetters,
    "ledger.open": ledger.BeginCall,
    "ledger.settle": ledger.SettleCall,
    "jobs.begin": jobs.BeginJob,
    "jobs.background": jobs.MoveToBackground,
    "jobs.finish": jobs.FinishJob,
    "jobs.post_notice": jobs.PostNotice,
    "jobs.claim_notice": jobs.ClaimNotice,
    "jobs.owe_again": jobs.OweAgain,
    "schedules.add": schedules.AddSchedule,
    "schedules.remove": schedules.RemoveSchedule,
    "schedules.move": schedules.MoveSchedule,
    "schedules.fire": schedules.FireSchedule,
    "processes.register": processes.RegisterProcess,
    "processes.leave": processes.LeaveProcess,
    "agents.claim": processes.ClaimAgent,
    "agents.release": processes.ReleaseAgent,
    "teams.create": teams.CreateTeam,
    "teams.delete": teams.DeleteTeam,
    "teams.delete_left": teams.DeleteLeftTeam,
    "teams.clear": teams.ClearTeam,
    "teams.take_over": teams.TakeOverTeam,
    "members.add": members.AddMember,
    "members.state": members.SetState,
    "members.place": members.PlaceMember,
    "members.trouble": members.NoteTrouble,
    "mail.post": mail.PostMail,
    "mail.fail": mail.FailMail,
    "mail.told": mail.MarkTold,
    "mail.note_work": mail.NoteWork,
    "mail.note_progress": mail.NoteProgress,
    "mail.tell_of_rounds": mail.TellOfRounds,
    "mail.release": mail.ReleaseReports,
    "requests.open": requests.PostRequest,
    "requests.answer": requests.AnswerRequest,
    "requests.expire": requests.ExpireRequest,
    "requests.handled": requests.HandleAnswer,
    "tasks.reserve": tasks.ReserveTask,
    "tasks.create": tasks.CreateTask,
    "tasks.update": tasks.UpdateTask,
    "tasks.claim_first": tasks.ClaimFirst,
    "tasks.release": tasks.ReleaseTasks,
    "lists.begin": tasks.BeginList,
    "lists.adopt": tasks.AdoptList,
    "lists.drop": tasks.DropList,
    "landing.queue": landing.QueueBranch,
    "landing.change": landing.ChangeLanding,
    "landing.send_back": landing.SendBack,
    "hosts.join": hosts.JoinHost,
    "hosts.beat": hosts.Beat,
    "hosts.bury": hosts.BuryHost,
    "hosts.leave": hosts.LeaveHost,
    "hosts.return": hosts.ReturnHost,
    "snapshot.made": hosts.SnapshotMade,
    "workers.offer": remotes.OfferSlots,
    "workers.drain": remotes.DrainWorker,
    "workers.pass_over": remotes.PassOver,
    "remote.begin": remotes.BeginRemote,
    "remote.claim": remotes.ClaimRemote,
    "remote.started": remotes.StartRemote,
    "remote.saved": remotes.SaveRemote,
    "remote.ended": remotes.EndRemote,
    "remote.stop": remotes.StopRemote,
    "remote.expire": remotes.ExpireRemote,
    "remote.ask": remotes.AskLead,
    "remote.answer": remotes.AnswerWorker,
    "remote.drop": remotes.DropQuestion,
    "bundles.add": bundles.AddBundle,
}
NAMES = {kind: name for name, kind in ACTS.items()}

_encoder = msgspec.json.Encoder()
_pairs = msgspec.json.Decoder(list[tuple[str, msgspec.Raw]])


def encode_acts(acts: Sequence[Act[Any]]) -> bytes:
    return _encoder.encode([(NAMES[type(act)], act) for act in acts])


def decode_acts(data: bytes) -> list[Act[Any]]:
    """Read acts that were written down. An unknown name, or other fields, is an error."""
    try:
        return [_decoder(name).decode(fields) for name, fields in _pairs.decode(data)]
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise StoreError(f"What was written down is no act that this version of teamwright knows: {error}.") from error


@cache
def _decoder(name: str) -> msgspec.json.Decoder[Act[Any]]:
    if name not in ACTS:
        raise StoreError(f"This version of teamwright knows no act {name!r}. Update the program.")
    return msgspec.json.Decoder(ACTS[name])
