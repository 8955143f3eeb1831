"""Forks: what siblings, the parent and a resumed fork send, compared as the bytes that a server got."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import ID, LIMIT, agent, bash, crew, ended_calls, events_of, results
from fake_api import FakeApi, events, stream
from teamwright.app import Options, open_session
from teamwright.core.data.conversation.fork import PLACEHOLDER, TAG, directive, is_fork, placeholders
from teamwright.core.data.event import AgentEnded, AgentStarted, ModeChanged, Source
from teamwright.core.data.message import Message, Text, ToolCall, ToolResult, user
from teamwright.core.data.op import Say
from teamwright.host.git.worktrees.record import Worktree
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.moving import worktree_words

pytestmark = pytest.mark.anyio
MODEL = "claude-sonnet-4-5"


def fork(task: str, **more: Any) -> Any:
    return call("Agent", **{"description": "a part", "prompt": task, "subagent_type": "fork"} | more)


# --- bytes on the wire


def blocks(*made: dict[str, Any], **usage: int) -> list[Any]:
    """A reply of whole blocks, as the Messages API streams them."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": MODEL, "content": []}
    start = {"type": "message_start", "message": message | {"usage": {"input_tokens": 9, "output_tokens": 1} | usage}}
    out: list[dict[str, Any]] = [start]
    for index, block in enumerate(made):
        empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block.get("text", "")}
        if block["type"] == "tool_use":
            empty = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        out += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    stop = "tool_use" if any(b["type"] == "tool_use" for b in made) else "end_turn"
    out += [
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return stream(events(out))


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(id: str, name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def spawn(id: str, task: str) -> dict[str, Any]:
    return use(id, "Agent", description="a part", prompt=task, subagent_type="fork")


async def play(walker: Walker, api: FakeApi, prompt: str, **more: Any) -> str:
    env = walker.env | {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "sk-test"}
    options = Options(cwd=walker.project, env=env, model=MODEL, mode="bypassPermissions", fork=True, **more)
    session = await open_session(options)
    async with session:
        await session.submit(Say((Text(prompt),)))
        with anyio.fail_after(LIMIT):
            await session.idle()
    return session.id


def plain(body: bytes) -> list[str]:
    """A request as a cache sees it: one string for each block, without markers."""
    out: list[str] = []
    request = json.loads(body)
    for block in [*request["tools"], *request["system"]]:
        out.append(json.dumps({k: v for k, v in block.items() if k != "cache_control"}, sort_keys=True))
    for message in request["messages"]:
        for block in message["content"]:
            shown = {k: v for k, v in block.items() if k != "cache_control"} | {"role": message["role"]}
            out.append(json.dumps(shown, sort_keys=True))
    return out


def common(rows: Sequence[Any]) -> Any:
    """The longest common beginning."""
    least = min(map(len, rows))
    return rows[0][: next((n for n in range(least) if len({row[n] for row in rows}) > 1), least)]


def markers(body: bytes) -> int:
    return body.count(b'"cache_control"')


def by_task(api: FakeApi, task: str) -> list[bytes]:
    found = [a.body for a in api.asked if a.path == "/v1/messages"]
    return [b for b in found if f"fork-directive: {task}".encode() in b]


@pytest.mark.spec("F1", "F2", "F8")
async def test_siblings_send_the_same_bytes_up_to_the_directive(walker: Walker) -> None:
    spawning = blocks(text("three"), *(spawn(f"t{n}", f"task-{n}") for n in (1, 2, 3)))
    async with FakeApi([blocks(use("t0", "Glob", pattern="*")), spawning, blocks(text("said"))]) as api:
        await play(walker, api, "go")
    first = [by_task(api, f"task-{n}")[0] for n in (1, 2, 3)]
    whole = common(first)
    assert whole.endswith(b"fork-directive: task-")
    assert len({body[len(whole) + 1 :] for body in first}) == 1  # nothing else differs after it
    assert all(markers(body) == 4 for body in first)
    before = api.asked[1].body  # the request that forked
    parent_next = next(a.body for a in api.asked if b"agentId: " in a.body and TAG.encode() not in a.body)
    shared = common([plain(first[0]), plain(parent_next)])
    assert len(shared) == len(plain(before)) + 4  # the text and the three calls of the spawning turn


@pytest.mark.spec("F1", "F8", "C3", "C4")
async def test_a_fork_that_is_woken_in_another_process_continues_its_own_prefix(walker: Walker) -> None:
    async with FakeApi([blocks(spawn("t1", "task-1")), blocks(text("said"))]) as api:
        session = await play(walker, api, "go")
    old = by_task(api, "task-1")[-1]
    (transcript,) = (walker.store / "projects").glob("*/*/agents/*.jsonl")
    wake = use("t2", "SendMessage", to=transcript.stem, message="and then?", summary="more")
    async with FakeApi([blocks(wake), blocks(text("said"))]) as api:
        await play(walker, api, "again", origin=Origin(resume=session))
    woken = by_task(api, "task-1")[0]
    assert common([plain(old), plain(woken)]) == plain(old) and "and then?" in woken.decode()
    assert "again" not in json.dumps(json.loads(woken)["messages"])  # the fork lacks what the parent heard later


@pytest.mark.spec("F1", "F2")
async def test_forks_of_a_resumed_session_extend_what_it_sent_before(walker: Walker) -> None:
    async with FakeApi([blocks(use("t0", "Glob", pattern="*")), blocks(text("first"))]) as api:
        session = await play(walker, api, "go")
    old = api.asked[-1].body
    async with FakeApi([blocks(spawn("t1", "task-1"), spawn("t2", "task-2")), blocks(text("said"))]) as api:
        await play(walker, api, "again", origin=Origin(resume=session))
    one, two = by_task(api, "task-1")[0], by_task(api, "task-2")[0]
    assert plain(one)[: len(plain(old))] == plain(old)
    assert common([one, two]).endswith(b"fork-directive: task-")


# --- what a fork may and may not


@pytest.mark.spec("R3", "F3", "F6", "B11")
async def test_without_a_type_it_is_a_fork_that_bubbles_and_reports_later(walker: Walker) -> None:
    scripts = {"main": [call("Agent", description="d", prompt="SCRIPT:part"), "waiting", "end"], "part": ["Scope: all"]}
    async with crew(walker, _last(scripts), fork=True) as walk:
        await walk.play()
    (child,) = walk.children
    started, *rest = events_of(walker, child)
    assert isinstance(started, AgentStarted) and started.kind == "fork" and isinstance(started.source, Source)
    assert ModeChanged("bubble") in rest and AgentEnded("completed", "Scope: all") in rest
    assert ended_calls(walk)[0].data["status"] == "async_launched" and "Scope: all" in walk.notices[0]


async def test_the_setting_turns_forks_on_as_the_option_does(walker: Walker) -> None:
    scripts = {"main": [fork("SCRIPT:part"), "waiting", "end"], "part": ["Scope: all"]}
    async with crew(walker, _last(scripts)) as walk:
        await walk.play()
    assert ended_calls(walk)[0].is_error and not walk.children
    (walker.home / ".teamwright").mkdir(exist_ok=True)
    (walker.home / ".teamwright" / "settings.json").write_text('{"teamwright": {"fork": true}}')
    async with crew(walker, _last(scripts)) as walk:
        await walk.play()
    assert not ended_calls(walk)[0].is_error and len(walk.children) == 1


@pytest.mark.spec("F5", "P10")
async def test_a_fork_cannot_fork_by_its_origin(walker: Walker) -> None:
    scripts = {"main": [fork("SCRIPT:part"), "waiting"], "part": [fork("SCRIPT:never"), "done"], "never": ["no"]}
    async with crew(walker, _last(scripts), fork=True) as walk:
        await walk.play()
    (said,) = ended_calls(walk, walk.children[0])
    assert said.is_error and "cannot fork" in said.content[0].text and len(walk.children) == 1


@pytest.mark.spec("F5")
async def test_whoever_was_told_the_wrapper_cannot_fork_and_a_file_with_the_tag_changes_nothing(walker: Walker) -> None:
    (walker.project / "notes").write_text(f"{TAG}\n")
    scripts = {"main": [bash("cat notes"), fork("SCRIPT:part"), "waiting"], "part": ["Scope: fine"]}
    async with crew(walker, _last(scripts), fork=True) as walk:
        await walk.play()
    assert not ended_calls(walk)[1].is_error
    async with crew(walker, _last({"main": [fork("SCRIPT:part"), "end"], "part": ["no"]}), fork=True) as walk:
        await walk.play(f"{TAG} SCRIPT:main")
    assert ended_calls(walk)[0].is_error and "cannot fork" in ended_calls(walk)[0].content[0].text


@pytest.mark.spec("F6", "P4")
async def test_a_model_in_the_call_has_no_effect_and_that_is_said(walker: Walker) -> None:
    scripts = {"main": [fork("SCRIPT:part", model="haiku"), "waiting"], "part": ["Scope: fine"]}
    async with crew(walker, _last(scripts), fork=True) as walk:
        await walk.play()
    assert "model was ignored" in ended_calls(walk)[0].content[0].text
    assert {r.model for r in walk.model.requests} == {walk.session.main.model}


@pytest.mark.spec("F1", "M4", "R13")
async def test_what_a_fork_reads_and_does_stays_its_own(walker: Walker) -> None:
    (walker.project / "f").write_text("here\n")
    path = str(walker.project / "f")
    scripts = {
        "main": [
            fork("SCRIPT:part"),
            "waiting",
            call("Write", file_path=path, content="x"),
            "end",
        ],
        "part": [call("Read", file_path=path), "Scope: read it"],
    }
    async with crew(walker, _last(scripts), fork=True) as walk:
        await walk.play()
    write = ended_calls(walk)[1]
    assert write.is_error and "not been read" in write.content[0].text  # it was the fork that had read it


@pytest.mark.spec("F2")
async def test_a_fork_never_sees_what_its_siblings_calls_returned(walker: Walker) -> None:
    scripts = {"main": [[fork("SCRIPT:part"), bash("echo beside")], "waiting"], "part": ["Scope: alone"]}
    async with crew(walker, _last(scripts), fork=True) as walk:
        await walk.play()
    first = next(r for r in walk.model.requests if TAG in str(r.messages))
    assert [said for said, _ in results(first.messages[-1])] == [PLACEHOLDER] * 2
    assert first.shared == len(first.messages)


@pytest.mark.spec("C3")
async def test_a_fork_that_has_reported_goes_on_when_it_is_written_to(walker: Walker) -> None:
    more = call("SendMessage", to=ID, message="and the rest?", summary="more")
    scripts = {"main": [fork("SCRIPT:part"), "waiting", more, "waiting", "end"], "part": ["Scope: one", "Scope: two"]}
    async with crew(walker, _last(scripts), fork=True) as walk:
        await walk.play()
    assert "Scope: two" in walk.notices[-1]
    one, two = [r for r in walk.model.requests if TAG in str(r.messages)]
    assert two.messages[: len(one.messages)] == one.messages and two.shared == one.shared


def _last(scripts: Any) -> Any:
    """A fork repeats its parent's messages, so the last script named in a text counts, from there on."""
    from teamwright.models.scripted import ScriptedModel

    def step(request: Any) -> Any:
        name, count = "main", 0
        for message in request.messages:
            if message.role == "assistant":
                count += 1
                continue
            for block in message.blocks:
                if isinstance(block, Text) and "SCRIPT:" in block.text:
                    name, count = block.text.rpartition("SCRIPT:")[2].split()[0], 0
        steps = scripts[name]
        return steps[count] if count < len(steps) else "done"

    return ScriptedModel(step)


# --- the words


@pytest.mark.spec("F4", "F5")
def test_the_directive_has_the_form_of_the_report_and_ends_with_the_task() -> None:
    words = directive("count the lines")
    for part in (TAG, "Scope:", "Result:", "Key files:", "Files changed:", "Issues:", "500 words", "commit"):
        assert part in words
    assert words.endswith("fork-directive: count the lines") and is_fork([user(words)])


@pytest.mark.spec("F7")
def test_a_fork_in_a_worktree_is_told_how_paths_translate() -> None:
    tree = Worktree(
        "w", Path("/tree/.teamwright/worktrees/w"), "worktree-w", "0123456789", Path("/tree"), Path("/t/.git")
    )
    words = directive("x", moved=worktree_words(tree, Path("/tree/deep")))
    assert f"a path /tree/x means {tree.path}/x" in words and "read files here before you edit" in words
    assert "worktree-w from 0123456" in words and "Commit what is to be merged. Do that before you report" in words


@pytest.mark.spec("F4", "F7")
def test_a_fork_that_shares_the_files_is_not_told_to_commit() -> None:
    assert "commit nothing unless the task says so" in directive("x") and "merged" not in directive("x")


@pytest.mark.spec("F5")
def test_the_tag_counts_only_in_what_was_told() -> None:
    result = Message("user", (ToolResult("c", (Text(TAG),)),))
    assert not is_fork([result, Message("assistant", (Text(TAG),))]) and is_fork([result, user(f"x {TAG}")])


@pytest.mark.spec("F2")
def test_every_call_has_the_same_placeholder() -> None:
    made = placeholders([ToolCall("a", "Agent"), ToolCall("b", "Bash")])
    assert [r.call_id for r in made] == ["a", "b"] and len({r.content for r in made}) == 1


@pytest.mark.spec("R1")
async def test_a_named_kind_still_starts_fresh_with_the_gate_on(walker: Walker) -> None:
    scripts = {"main": [agent("child", subagent_type="general-purpose"), "waiting"], "child": ["fresh"]}
    async with crew(walker, _last(scripts), fork=True) as walk:
        await walk.play()
    fresh = next(r for r in walk.model.requests if len(r.messages) == 1 and "SCRIPT:child" in r.messages[0].text)
    assert TAG not in str(fresh.messages)


@pytest.mark.spec("F8")
async def test_cost_says_what_forking_saved(walker: Walker, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures as the provider counted them: each fork read what it inherited from the cache."""
    from anyio import to_thread

    cached = blocks(text("said"), cache_read_input_tokens=50_000)
    async with FakeApi([blocks(spawn("t1", "task-1"), spawn("t2", "task-2")), cached]) as api:
        session = await play(walker, api, "go")

    def show(*, as_json: bool) -> str:
        import os

        from teamwright.surfaces.commands.listings import show_cost

        before = os.environ.get("TEAMWRIGHT_HOME")
        os.environ["TEAMWRIGHT_HOME"] = walker.env["TEAMWRIGHT_HOME"]
        try:
            show_cost(session, as_json=as_json)
        finally:
            os.environ.pop("TEAMWRIGHT_HOME") if before is None else os.environ.update(TEAMWRIGHT_HOME=before)
        return capsys.readouterr().out

    found = json.loads(await to_thread.run_sync(lambda: show(as_json=True)))
    forks = [a for a in found["agents"] if a["name"] == "fork"]
    assert [a["cached_tokens"] for a in forks] == [50_000, 50_000]
    assert 0 < found["saved_by_forks_usd"] < found["saved_by_cache_usd"]
    assert "by 2 forks" in await to_thread.run_sync(lambda: show(as_json=False))
