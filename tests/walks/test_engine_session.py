"""A session whose store and transcripts are in an engine: it continues on another machine, and never twice."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import LIMIT, agent, crew
from engine_kit import Engines
from teamwright.app import open_session
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Text
from teamwright.core.errors import SessionBusy, UsageError
from teamwright.core.ids import new_letter_id
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.jobs.jobs import Job
from teamwright.store.engine.port import EngineError
from teamwright.store.engine.wire.address import Address

pytestmark = pytest.mark.anyio


@pytest.fixture
def space() -> Address:
    return Engines.get().new_space()


def machine(root: Path, name: str) -> Walker:
    """A machine with its own home and directory."""
    (root / name).mkdir()
    return Walker(root / name)


def texts(model: ScriptedModel, n: int = -1) -> str:
    return "\n".join(message.text for message in model.requests[n].messages)


@pytest.mark.spec("Z2", "Z16")
async def test_a_session_goes_on_on_another_machine(tmp_path: Path, space: Address) -> None:
    here, there = machine(tmp_path, "a"), machine(tmp_path, "b")
    (here.project / "notes").write_text("the word is heron")
    script = [call("Read", file_path=str(here.project / "notes")), "I have read it"]
    first = await here.walk(script, ["read it"], engine=str(space))
    assert first.ends[0].text == "I have read it"
    assert not (here.home / ".teamwright" / "state.db").exists()
    again = await there.walk(
        {"next": ["heron"]}, ["which word? SCRIPT:next"], engine=str(space), origin=Origin(resume=first.session.id)
    )
    assert again.session.id == first.session.id and again.ends[0].text == "heron"
    said = texts(again.model)
    assert "continues on another machine" in said and f"Paths below {here.project} are below {there.project}" in said
    assert "read it" in said and "I have read it" in said and "which word?" in said
    assert again.model.requests[0].system == first.model.requests[0].system  # the stored prompt
    third = await here.walk(["well"], ["and now?"], engine=str(space), origin=Origin(resume=first.session.id[:8]))
    assert "heron" in texts(third.model) and "which word?" in texts(third.model)


def make_repository(at: Path, name: str) -> None:
    def git(*args: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *args], cwd=at, check=True, timeout=60)

    git("init", "-q")
    (at / "file").write_text(name)
    git("add", ".")
    git("commit", "-qm", name)


@pytest.mark.spec("Z16")
async def test_a_session_goes_on_in_a_clone_and_not_in_another_repository(tmp_path: Path, space: Address) -> None:
    here, clone, other = (machine(tmp_path, name) for name in "abc")
    make_repository(here.project, "shop")
    make_repository(other.project, "bank")
    clone.project.rmdir()
    subprocess.run(["git", "clone", "-q", here.project, clone.project], check=True, timeout=60)
    first = await here.walk(["hello"], ["hi"], engine=str(space))
    back = Origin(resume=first.session.id)
    with pytest.raises(UsageError, match="is about another repository than the one in"):
        await open_session(other.options(["no"], engine=str(space), origin=back))
    walk = await clone.walk(["hello", "yes"], ["now?"], engine=str(space), origin=back)
    assert walk.ends[0].text == "yes"
    again = await clone.walk(["hello", "yes", "well"], ["still?"], engine=str(space), origin=back)
    assert texts(again.model).count("continues on another machine") == 1


@pytest.mark.spec("Z16")
async def test_there_are_never_two(tmp_path: Path, space: Address) -> None:
    here, there = machine(tmp_path, "a"), machine(tmp_path, "b")
    for one in (here, there):
        one.env["TEAMWRIGHT_LEASE_SECONDS"] = "3"
    session = await open_session(here.options(["hello"], engine=str(space)))
    async with session:
        await session.ask("hi")
        with pytest.raises(SessionBusy, match=rf"session {session.id} is running in a process on .*, which was heard"):
            await open_session(there.options(["no"], engine=str(space), origin=Origin(resume=session.id)))
        with pytest.raises(SessionBusy):  # on the same machine
            await open_session(here.options(["no"], engine=str(space), origin=Origin(resume=session.id)))
        fork = Origin(resume=session.id, fork=True)
        copy = await there.walk(["hello", "copied"], ["go"], engine=str(space), origin=fork)
        assert "hello" in texts(copy.model) and copy.session.id != session.id
    walk = await there.walk(["hello", "yes"], ["now?"], engine=str(space), origin=Origin(resume=session.id))
    assert "hello" in texts(walk.model)


@pytest.mark.spec("Z16")
async def test_an_id_that_a_session_of_another_machine_has_is_taken(tmp_path: Path, space: Address) -> None:
    here, there = machine(tmp_path, "a"), machine(tmp_path, "b")
    origin = Origin(id="11111111-1111-4111-8111-111111111111")
    session = await open_session(here.options(["hello", "again"], engine=str(space), origin=origin))
    async with session:
        await session.ask("hi")
        with pytest.raises(UsageError, match=f"session {session.id} already exists"):
            await open_session(there.options(["no"], engine=str(space), origin=origin))
        assert (await session.ask("and now?")).text == "again"
    with pytest.raises(UsageError, match="already exists"):  # even if it has ended: nothing new may take its place
        await open_session(machine(tmp_path, "c").options(["no"], engine=str(space), origin=origin))


KILLED = """
import os, sys, anyio
from pathlib import Path
from teamwright.app import Options, open_session
from teamwright.models.scripted import ScriptedModel, call

async def main():
    project, url = sys.argv[1:]
    marks = project + "/marks"
    kill = call("Bash", command=f"echo ran >> {marks}; kill -9 {os.getpid()}; sleep 60")
    done = call("Bash", command=f"echo first >> {marks}")
    options = Options(cwd=Path(project), own_model=ScriptedModel([done, kill, "never"]), engine=url, may_bypass=True,
                      mode="bypassPermissions", sandbox=False)
    session = await open_session(options)
    print(session.id, flush=True)
    async with session:
        await session.ask("go")

anyio.run(main)
"""


@pytest.mark.spec("Z8", "Z16", "A2")
async def test_what_a_killed_lead_had_begun_is_known_elsewhere(tmp_path: Path, space: Address) -> None:
    """A call that finished is not run again; one that had begun has an unknown outcome."""
    here, there = machine(tmp_path, "a"), machine(tmp_path, "b")
    for one in (here, there):
        one.env["TEAMWRIGHT_LEASE_SECONDS"] = "3"
    argv = [sys.executable, "-c", KILLED, str(here.project), str(space)]
    done = subprocess.run(argv, env=here.env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -9, done.stderr
    id = done.stdout.strip()
    with anyio.fail_after(60):
        walk = await there.walk(["I see"], ["and?"], engine=str(space), origin=Origin(resume=id))
    results = [block for message in walk.model.requests[0].messages for block in message.blocks]
    words = str(results)
    assert "unknown" in words
    assert (here.project / "marks").read_text().split() == ["first", "ran"]


@pytest.mark.spec("Z16")
async def test_a_team_is_led_on_from_another_machine(tmp_path: Path, space: Address) -> None:
    """By its own session, and by another one with `--team`: members continue where they were."""
    here, there, third = (machine(tmp_path, name) for name in "abc")
    spawn = call(
        "Agent", name="ada", team_name="crew", description="d", prompt="SCRIPT:ada", subagent_type="general-purpose"
    )
    script = {
        "main": [call("TeamCreate", team_name="crew"), spawn, "waiting", "heard", "heard"],
        "ada": ["ada has begun", "ada goes on", "ada ends", "ada rests"],
    }
    first = await here.walk(script, ["go"], engine=str(space))
    write = {
        "say": [call("SendMessage", to="ada", summary="s", message="still there?"), "sent", "ok", "ok"],
        "ada": script["ada"],
    }
    back = Origin(resume=first.session.id)
    again = await there.walk(write, ["SCRIPT:say"], engine=str(space), origin=back)
    asked = [request for request in again.model.requests if "still there?" in str(request.messages[-1].text)]
    assert asked and any("ada has begun" in message.text for message in asked[0].messages)
    led = await third.walk(write, ["SCRIPT:say"], engine=str(space), team="crew")
    asked = [request for request in led.model.requests if "still there?" in str(request.messages[-1].text)]
    assert asked and any("ada goes on" in message.text for message in asked[0].messages)


@pytest.mark.spec("Z2")
async def test_an_engine_that_cannot_be_reached_makes_nothing(walker: Walker) -> None:
    with pytest.raises(
        EngineError, match=r"The engine at nats://127.0.0.1:9/main cannot be reached: the connection was refused.+\.$"
    ):
        await open_session(walker.options(["x"], engine="nats://u:s3cret@127.0.0.1:9/main"))
    assert not (walker.home / ".teamwright" / "engines").exists()


@pytest.mark.spec("Z23")
@pytest.mark.parametrize("trust", [False, True])
async def test_a_project_cannot_choose_an_engine(walker: Walker, space: Address, trust: bool) -> None:
    (walker.project / ".teamwright").mkdir()
    text = '{"env": {"TEAMWRIGHT_ENGINE": "URL"}, "teamwright": {"engine": {"url": "URL"}}}'.replace("URL", str(space))
    (walker.project / ".teamwright" / "settings.json").write_text(text)
    walk = await walker.walk(["fine"], trust=trust)
    assert walk.session.services.store.space is None and (walker.home / ".teamwright" / "state.db").exists()
    if trust:
        assert any("teamwright.engine: a project cannot set this" in note for note in walk.session.notes)


async def test_an_address_comes_from_a_file_the_environment_or_ones_own_settings(
    walker: Walker, space: Address
) -> None:
    file = walker.home / "lead.url"
    file.write_text(f"{space}\n")
    more: list[dict[str, Any]] = [{"engine": f"@{file}"}, {"env": walker.env | {"TEAMWRIGHT_ENGINE": f"@{file}"}}]
    (walker.home / ".teamwright").mkdir()
    for options in more:
        walk = await walker.walk(["fine"], **options)
        assert walk.session.services.store.space is not None
    settings = walker.home / ".teamwright" / "settings.json"
    settings.write_text('{"teamwright": {"engine": {"url": "@FILE"}}}'.replace("FILE", str(file)))
    walk = await walker.walk(["fine"])
    assert walk.session.services.store.space is not None
    with pytest.raises(UsageError, match="cannot be read from"):
        await open_session(walker.options(["x"], engine="@/nowhere"))


async def test_of_a_session_without_words_nothing_stays(tmp_path: Path, space: Address) -> None:
    here = machine(tmp_path, "a")
    await here.walk(["never asked"], [], engine=str(space))
    session = await open_session(here.options(["x"], engine=str(space)))
    async with session:
        opened = session.services.store.space
        assert opened is not None
        await opened.transcripts.flush()
        assert list(await opened.lines.counts()) == [session.id]


@pytest.mark.spec("C5")
async def test_two_messages_at_once_resume_an_agent_once(tmp_path: Path, space: Address) -> None:
    here = machine(tmp_path, "a")
    scripts = {"main": [agent("child"), "end"], "child": ["done", "again", "and again"]}
    async with crew(here, scripts, engine=str(space)) as play:
        await play.play()
        (child,) = play.children
        spawner, jobs = play.session.services.spawner, list[Job | None]()

        async def write(words: str) -> None:
            letter = Letter(new_letter_id(), child, PERSON, Prompt((Text(words),)))
            jobs.append(await spawner.write(spawner.known[child], letter, play.session.main.id, None))

        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as group:
                group.start_soon(write, "and now?")
                group.start_soon(write, "and then?")
            begun = [job for job in jobs if job is not None]
            for job in begun:
                await job.closed.wait()
    assert len(jobs) == 2 and len(begun) == 1 and len(play.requests("child")) in (2, 3)
