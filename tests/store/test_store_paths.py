"""Where files are: slugs, ids that become paths, listings that read only the head of a file."""

import os
from pathlib import Path

import pytest

from teamwright.core.data.event import FORMAT, AgentStarted, LettersTaken
from teamwright.core.data.message import Image, Message, Text, user
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, LetterId, SessionId, new_session_id
from teamwright.osfiles.private import make_dir
from teamwright.store.files.paths import (
    Home,
    SessionFiles,
    find_transcript,
    home_from,
    list_sessions,
    remove_files,
    slug,
)
from teamwright.store.files.transcripts import Transcript

ID = SessionId("0d9b0b0e-6a0f-4a55-9d4c-6a2f7f3d1c11")
TRICKS = ["", "..", "../x", f"{ID}/../x", f"{ID}\n", "a" * 36, ID.replace("-", "/"), f"{ID}.jsonl", "*"]


def begin(home: Home, cwd: Path, prompt: str = "", *, id: SessionId | None = None, format: int = FORMAT) -> SessionId:
    id = id or new_session_id()
    transcript = Transcript.create(home.transcript(cwd, id))
    transcript.append(AgentStarted(id, str(cwd), "1", format), 1)
    if prompt:
        transcript.append(LettersTaken((LetterId("l1"),), user(prompt)), 2)
    transcript.close()
    return id


def touch(home: Home, id: SessionId, seconds: int) -> None:
    path = find_transcript(home, id)
    assert path is not None
    os.utime(path, (seconds, seconds))


def test_home_is_named_by_the_environment_or_lies_in_the_user_s(tmp_path: Path) -> None:
    assert home_from({"TEAMWRIGHT_HOME": str(tmp_path)}).root == tmp_path
    assert home_from({"HOME": str(tmp_path)}).root == tmp_path / ".teamwright"
    assert home_from({"HOME": str(tmp_path), "TEAMWRIGHT_HOME": ""}).root == tmp_path / ".teamwright"
    assert home_from({"TEAMWRIGHT_HOME": "near"}).root == Path.cwd() / "near"


def test_the_files_of_a_session() -> None:
    home, cwd = Home(Path("/h")), Path("/nowhere/app")
    base = Path("/h/projects/-nowhere-app")
    assert home.transcript(cwd, ID) == base / f"{ID}.jsonl"
    assert home.files(cwd, ID).dir == base / ID
    assert home.files(cwd, ID).agent(AgentId("a1")) == base / ID / "agents" / "a1.jsonl"
    assert home.files(cwd, ID).prompts == base / ID / "prompts"
    assert home.files(cwd, ID).jobs == base / ID / "jobs"
    assert home.files(cwd, ID).outputs == base / ID / "outputs"
    assert (home.state, home.run, home.logs, home.memory) == tuple(
        Path("/h") / x for x in ("state.db", "run", "logs", "memory")
    )
    assert home.session_lock(ID).parent == home.run


def test_slugs_are_readable_and_never_the_same_for_two_paths() -> None:
    assert slug(Path("/home/me/app")) == "-home-me-app"
    paths = [
        "/a/b/c",
        "/a/b-c",
        "/a-b/c",
        "/a b/c",
        "/a/b/c-",
        "/ä/b",
        "/ö/b",
        "/x" * 200,
        "/x" * 201,
        "/y" + "/x" * 200,
    ]
    slugs = [slug(Path(p)) for p in paths]
    assert len(set(slugs)) == len(paths)
    assert all(len(s) <= 120 and "/" not in s and s.isascii() for s in slugs)


def test_a_link_to_a_project_is_the_same_project(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert slug(tmp_path / "link") == slug(tmp_path / "real")


@pytest.mark.parametrize("trick", TRICKS)
def test_what_is_no_session_id_never_becomes_a_path(tmp_path: Path, trick: str) -> None:
    home = Home(tmp_path)
    with pytest.raises(StoreError, match="not a session id"):
        home.transcript(tmp_path, SessionId(trick))
    with pytest.raises(StoreError, match="not a session id"):
        home.session_lock(SessionId(trick))
    assert find_transcript(home, trick) is None


@pytest.mark.parametrize("trick", ["", "../a", "a/b", "a.b", "a" * 101, "a\n"])
def test_what_is_no_agent_id_never_becomes_a_path(tmp_path: Path, trick: str) -> None:
    with pytest.raises(StoreError, match="not an agent id"):
        Home(tmp_path).files(tmp_path, ID).agent(AgentId(trick))


def test_a_session_is_found_from_any_directory(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert find_transcript(home, ID) is None
    begin(home, tmp_path / "one", id=ID)
    begin(home, tmp_path / "two")
    assert find_transcript(home, ID) == home.transcript(tmp_path / "one", ID)


def test_listing_newest_first_of_one_project_or_all(tmp_path: Path) -> None:
    home, one, two = Home(tmp_path / "home"), tmp_path / "one", tmp_path / "two"
    old, new, other = begin(home, one, "first  words\nhere"), begin(home, one, "x" * 999), begin(home, two)
    for id, seconds in ((old, 1000), (other, 2000), (new, 3000)):
        touch(home, id, seconds)

    entries = list_sessions(home)
    assert [e.id for e in entries] == [new, other, old]
    assert [e.id for e in list_sessions(home, one)] == [new, old]
    assert list_sessions(home, tmp_path / "none") == []
    assert (entries[2].cwd, entries[2].prompt, entries[2].modified) == (str(one), "first words here", 1_000_000)
    assert entries[0].prompt == "x" * 200
    assert not any(e.fault for e in entries)


def test_a_listing_reads_only_the_head(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    id = begin(home, tmp_path, "hello")
    path = find_transcript(home, id)
    assert path is not None
    with path.open("r+b") as file:
        file.truncate(20 * 1024**3)  # sparse: reading it all would take noticeably long
    assert [(e.prompt, e.fault, e.size) for e in list_sessions(home)] == [("hello", "", 20 * 1024**3)]


def test_a_first_prompt_that_is_larger_than_the_head(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    id = begin(home, tmp_path)
    transcript, _, _ = Transcript.open(home.transcript(tmp_path, id))
    picture = Message("user", (Image("image/png", "A" * 200_000), Text("look")))
    transcript.append(LettersTaken((LetterId("l1"),), picture), 2)
    transcript.close()
    assert [(e.prompt, e.fault, e.said) for e in list_sessions(home)] == [("", "", True)]


def test_a_session_in_which_nothing_was_said_is_told_apart(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    quiet, loud = begin(home, tmp_path), begin(home, tmp_path, "hi")
    assert {e.id: e.said for e in list_sessions(home)} == {quiet: False, loud: True}


def test_broken_sessions_are_listed_with_their_fault_beside_the_good_ones(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    good, newer = begin(home, tmp_path, "hi"), begin(home, tmp_path, "hi", format=FORMAT + 1)
    empty, garbage = new_session_id(), new_session_id()
    home.transcript(tmp_path, empty).write_bytes(b"")
    home.transcript(tmp_path, garbage).write_bytes(b"\0\xff\n" * 10)
    (home.project(tmp_path) / "notes.jsonl").write_text("not a session")

    faults = {e.id: e.fault for e in list_sessions(home)}
    assert set(faults) == {good, newer, empty, garbage}
    assert faults[good] == ""
    assert "newer version" in faults[newer]
    assert faults[empty].startswith("empty")
    assert faults[garbage].startswith("damaged")


def test_removing_a_session_takes_all_its_files_and_no_others(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    gone, kept = begin(home, tmp_path), begin(home, tmp_path)
    files = SessionFiles(home.transcript(tmp_path, gone))
    make_dir(files.outputs).joinpath("o").write_text("x")
    remove_files(files)
    remove_files(files)
    assert [e.id for e in list_sessions(home)] == [kept]
    assert not files.dir.exists()
