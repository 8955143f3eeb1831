"""Random lives in which features meet: teams, plans, compactions, forks, jobs, worktrees, kills and resumes.

`python tests/teeth/crossing.py [LIVES [SEED]]` plays LIVES runs of the program and prints the findings. The model is a
provider that chooses at random; what must hold whatever it does is checked at the end, from transcripts, from the
store's listing, and from what the last run said.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from team_brain import LEAD, TEAM, Brain, Talk, events, tool
from team_harness import ARGV, LIMIT, Crew, random_kill
from team_ledger import Diary

from teamwright.core.data.event import LettersTaken
from teamwright.store.files import transcripts

NAMES = ("ada", "bob", "cyd")
PLACES = ("in-process", "in-process", "local")
LIVES = 2_000
EACH = 5  # lives of one crew, before the last
AT_ONCE = 2
MOST = 14  # calls of an agent between two prompts of a person
FULL = 190_000  # tokens: more than a window takes
TOKEN = re.compile(r"TOK:\w+")
PLAN = re.compile(r"plan-[0-9a-f]+")
AGENT = re.compile(r"agentId: (\S+)")
NOTICE = re.compile(r"<task-notification>\s*<task-id>([^<]+)</task-id>")
KILLED = re.compile(r"<task-id>([^<]+)</task-id>(?:(?!</task-notification>).)*<status>killed</status>", re.DOTALL)
SUMMARY = "This conversation is about to be shortened"
SUBMITTED = re.compile(r"(plan-[0-9a-f]+)")


class Chaos(Brain):
    """A model that does anything at any time, and is used up in the end."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.resting: set[str] = set()  # crews that are to come to rest
        super().__init__()

    def reply(self, team: str, talk: Talk) -> list[dict[str, Any]]:
        if any(SUMMARY in text for text in talk.texts[-2:]):
            return events([], text=self.dice.choice(["a summary of it all", "another summary"]))
        done = len(talk.calls)
        if team in self.resting or done >= MOST or self.dice.random() < 0.25:
            return events([], text=self.dice.choice(["resting", "that is done", "I wait for the others"]))
        tokens = FULL if self.dice.random() < 0.06 else 10
        return events([self._step(talk) for _ in range(self.dice.choice([1, 1, 1, 2, 3]))], tokens=tokens)

    def _step(self, talk: Talk) -> dict[str, Any]:
        name = name_of(talk)
        choices = list(self._as_lead(talk) if name == LEAD else self._as_mate(talk) if name in NAMES else ())
        choices += [tool("Bash", command="echo here"), tool("Bash", command="seq 1 9000")]
        return self.dice.choice(choices)

    def _as_lead(self, talk: Talk) -> Iterator[dict[str, Any]]:
        if not any(call.name == "TeamCreate" for call in talk.calls.values()) and TEAM not in "".join(talk.texts):
            yield from 4 * [tool("TeamCreate", team_name=TEAM)]
        for mode, room in ((None, None), ("plan", None), (None, "worktree")):
            given = {"mode": mode} if mode else {}
            given |= {"isolation": room} if room else {}
            who = self.dice.choice(NAMES)
            yield tool("Agent", name=who, prompt=f"CREW:{who} work", description="works along", **given)
        kind = {"subagent_type": "general-purpose", "description": "works alone"}
        yield tool("Agent", prompt="CREW:sub do it", **kind)
        yield tool("Agent", prompt="CREW:sub do it beside", run_in_background=True, **kind)
        yield tool("Agent", prompt="FORK do it as a copy", description="a copy")
        yield tool("Bash", command="sleep 0.05; echo done", run_in_background=True)
        yield tool("TaskCreate", subject="something", description="to be done")
        yield tool("TaskUpdate", taskId="1", owner=self.dice.choice(NAMES))
        for id in jobs_of(talk)[-2:]:
            yield tool("SendMessage", to=id, message=self._token(), summary="more")
            yield tool("TaskOutput", task_id=id, timeout=50)
            yield tool("TaskStop", task_id=id)
        for id in sorted({id for text in talk.texts for id in PLAN.findall(text)}):
            yes = self.dice.random() < 0.6
            answer = {"type": "plan_approval_response", "request_id": id, "approve": yes, "feedback": "so"}
            yield from 2 * [tool("SendMessage", to=self.dice.choice(NAMES), message=answer)]
        yield from self._say(*NAMES, "*")
        yield tool("SendMessage", to=self.dice.choice(NAMES), message={"type": "shutdown_request", "reason": "enough"})

    def _as_mate(self, talk: Talk) -> Iterator[dict[str, Any]]:
        yield tool("ExitPlanMode", plan=f"I would do it, {self._token()}")
        yield from self._say(LEAD, *NAMES)
        yield tool("TaskUpdate", taskId="1", status=self.dice.choice(["in_progress", "completed", "pending"]))
        yield tool("Agent", prompt="CREW:sub help", description="helps", subagent_type="general-purpose")
        for id in sorted({id for text in talk.texts for id in re.findall(r"shutdown-\w+", text)}):
            answer = {"type": "shutdown_response", "request_id": id, "approve": self.dice.random() < 0.5}
            yield tool("SendMessage", to=LEAD, message=answer)

    def _say(self, *to: str) -> Iterator[dict[str, Any]]:
        for _ in range(2):
            yield tool("SendMessage", to=self.dice.choice(to), message=self._token(), summary="news")

    def _token(self) -> str:
        return f"TOK:{self.dice.getrandbits(64):016x}"


def name_of(talk: Talk) -> str:
    if any("<fork-boilerplate>" in text for text in talk.texts):
        return "fork"
    return talk.name


def jobs_of(talk: Talk) -> list[str]:
    return list(dict.fromkeys(id for call in talk.calls.values() for id in AGENT.findall(call.result or "")))


class Life(Crew):
    """A session that is killed, resumed and prompted anew, again and again."""

    def __init__(self, brain: Chaos, mode: str, seed: int) -> None:
        super().__init__(brain, mode, seed)
        self.chaos = brain
        for words in (
            ["init", "-q"],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "a"],
        ):
            subprocess.run(["git", *words], cwd=self.project, check=True)
        if self.dice.random() < 0.5:
            self.env["TEAMWRIGHT_FORK"] = "1"
        self.faults: list[str] = []
        self.kinds: Counter[str] = Counter()

    def prompt(self) -> str:
        return f"CREW:{LEAD} go on with anything ({self.round})"

    def live(self, lives: int) -> int:
        """Returns how many lives there were."""
        for _ in range(lives):
            if self.dice.random() < 0.75:
                self.run_killed(random_kill(self.dice, self.mode))
            else:
                self._to_rest()
            self.chaos.counts.setdefault(self.name, 0)
            self._look("out", "err")
            if self.figures.faults:
                break
        self.chaos.resting.add(self.name)
        (self.root / "out").unlink(missing_ok=True)
        self._to_rest()
        self.faults += [*self.figures.faults, *self.chaos.faults.get(self.name, [])]
        self.faults += check(self)
        return self.round

    def _to_rest(self) -> None:
        self.run_to_rest()
        self._look("err")

    def _look(self, *names: str) -> None:
        for name in names:
            text = (self.root / name).read_text(errors="replace") if (self.root / name).exists() else ""
            if "Traceback" in text or "internal error" in text:
                self.faults.append(f"run {self.round}, {name}: {text[-2000:]}")


class Played(Struct):
    """What happened: by kind of event, and by tool and outcome."""

    lives: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def __iadd__(self, other: "Played") -> "Played":
        self.lives += other.lives
        self.kinds += other.kinds
        self.faults += other.faults
        return self


class Row(Struct):
    name: str
    state: str


def check(life: Life) -> list[str]:
    """What must hold, whatever was done."""
    state, found = life.state, list[str]()
    paths = [*(state / "projects").glob("*/*.jsonl"), *(state / "projects").glob("*/*/agents/*.jsonl")]
    diaries = {path.stem: Diary(path) for path in paths}
    heard: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    members = roster(life)
    for id, diary in diaries.items():
        found += [f"{diary.name} ({id}): {diary.lives} lives"] if diary.lives != 1 else []
        twice = [call for call, many in diary.ends.items() if many != 1]
        found += [f"{diary.name}: results twice: {twice}"] if twice else []
        open_calls = sorted(diary.calls.keys() - diary.results.keys())
        # one whose own process died is brought back when something waits for it
        here = life.mode == "in-process" and [row.state for row in members if row.name == diary.name] == ["idle"]
        if open_calls and (diary.name == LEAD or here) and id == last_of(diaries, diary.name):
            found.append(f"{diary.name}: calls without an end: {open_calls}")
        lines = [line.event for _, line in transcripts.read(paths[list(diaries).index(id)])]
        life.kinds.update(type(event).__name__ for event in lines)
        letters.update(letter for event in lines if isinstance(event, LettersTaken) for letter in event.letters)
        for call, (_, is_error) in diary.results.items():
            if call in diary.calls:
                life.kinds[f"{diary.calls[call].name} {'refused' if is_error else 'done'}"] += 1
        told = Counter(token for text in diary.heard for token in TOKEN.findall(text) if SUMMARY not in text)
        heard += told
        found += [f"{diary.name} ({id}) heard {token} {many} times" for token, many in told.items() if many > 1]
    found += [
        f"{row.name} is {row.state}, and nobody runs it" for row in members if row.state in ("created", "running")
    ]
    found += [f"the letter {letter} was read {many} times" for letter, many in letters.items() if many > 1]
    found += unheard(diaries, heard, members)
    found += untold(diaries)
    found += [f"left over: {left}"] if (left := life.processes()) else []
    log = state / "logs" / "teamwright.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    found += [f"log: {text[text.index('Traceback') - 200 :][:3000]}"] if "Traceback" in text else []
    return [*found, *unnamed(life, members)]


def last_of(diaries: dict[str, Diary], name: str) -> str:
    """The transcript of the newest incarnation: ids of agents do not tell, but only one can have been resumed."""
    same = [id for id, diary in diaries.items() if diary.name == name]
    return same[0] if len(same) == 1 else ""


def unheard(diaries: dict[str, Diary], heard: Counter[str], members: list[Row]) -> Iterator[str]:
    """Messages that were accepted, and that their reader never got although it still could. One that was killed or
    stopped hears them when it is continued, which its owner is told."""
    killed = {id for diary in diaries.values() for text in diary.heard for id in KILLED.findall(text)}
    calls = [call for diary in diaries.values() for call in diary.calls.values()]
    killed |= {str(call.args.get("task_id")) for call in calls if call.name == "TaskStop"}
    for diary in diaries.values():
        for id, call in diary.calls.items():
            said, (result, is_error) = call.args.get("message"), diary.results.get(id, ("", True))
            if call.name != "SendMessage" or not isinstance(said, str) or is_error:
                continue
            to = call.args["to"]
            states = [row.state for row in members if row.name == to]
            one = sum(other.name == to for other in diaries.values()) == 1  # a name may be given again
            lives = (to in diaries and to not in killed) or to == LEAD or (one and states == ["idle"])
            if lives and to != "*" and not heard[said]:
                yield f"{diary.name} -> {to}: {said} was accepted ({result[:80]!r}) and never heard"


def untold(diaries: dict[str, Diary]) -> Iterator[str]:
    """Ends of background agents that nobody asked about."""
    told = Counter(id for diary in diaries.values() for text in diary.heard for id in NOTICE.findall(text))
    begun: Counter[str] = Counter()
    asked: set[str] = set()
    by_others: set[str] = set()
    for diary in diaries.values():
        for id, call in diary.calls.items():
            result, _ = diary.results.get(id, ("", True))
            if call.name in ("Agent", "SendMessage") and "background" in result:
                begun.update(found := AGENT.findall(result))
                by_others |= set(found) if diary.name != LEAD else set()
            if call.name in ("TaskOutput", "TaskStop"):
                asked.add(str(call.args.get("task_id")))
    for agent in begun:
        if not told[agent] and agent not in asked | by_others:
            yield f"the end of {agent} was never told"


def roster(life: Life) -> list[Row]:
    ran = subprocess.run(
        [*ARGV, "teams", "--json"], env=life.env, cwd=life.project, capture_output=True, timeout=LIMIT, check=False
    )
    teams = msgspec.json.decode(ran.stdout) if ran.returncode == 0 else []
    return [Row(m["name"], m["state"]) for team in teams for m in team["members"] if m["name"] != LEAD]


def unnamed(life: Life, members: list[Row]) -> Iterator[str]:
    """A plan that waits is named by the last run."""
    waits = {row.name for row in members if row.state == "idle"}
    said = (life.root / "out").read_text(errors="replace") + (life.root / "err").read_text(errors="replace")
    ran = subprocess.run(
        [*ARGV, "why", "--json"], env=life.env, cwd=life.project, capture_output=True, timeout=LIMIT, check=False
    )
    for row in msgspec.json.decode(ran.stdout) if ran.returncode == 0 else []:
        for id in PLAN.findall(json.dumps(row)):
            if row.get("name") in waits and id not in said and str(row.get("name")) not in said:
                yield f"the plan {id} of {row.get('name')} waits, and the last run did not say so: {said[-500:]!r}"


def play(brain: Chaos, mode: str, seed: int, lives: int = EACH) -> Played:
    life = Life(brain, mode, seed)
    try:
        played = Played(life.live(lives), life.kinds, [f"{mode}, seed {seed}: {fault}" for fault in life.faults])
        if played.faults and "KEEP" in os.environ:
            place = Path(os.environ["KEEP"]) / life.name  # without sockets, which cannot be copied
            shutil.copytree(life.root, place, symlinks=True, ignore=shutil.ignore_patterns("run", "tmux"))
        return played
    finally:
        brain.resting.discard(life.name)
        life.close()


def main(most: int, seed: int) -> int:
    brain, began, played = Chaos(seed), time.monotonic(), Played()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while played.lives < most and len(played.faults) < 20:
            plans = [(PLACES[n % len(PLACES)], seed + n) for n in range(AT_ONCE * 3)]
            for done in as_completed([pool.submit(play, brain, *one) for one in plans]):
                played += done.result()
            seed += len(plans)
            so_far = f"{played.lives} lives, {len(played.faults)} faults"
            print(f"{time.monotonic() - began:6.0f} s  {so_far}", file=sys.stderr, flush=True)
    brain.close()
    print(f"{played.lives} lives in {time.monotonic() - began:.0f} s")
    print(", ".join(f"{kind} {many}" for kind, many in sorted(played.kinds.items())))
    print("\n".join(played.faults) or "no faults")
    return bool(played.faults)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*given, *(LIVES, 1)[len(given) :]))
