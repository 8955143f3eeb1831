"""Hooks that really run: commands, servers and functions, with everything that can go wrong."""

import json
import os
import re
import sys
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from fake_api import CUT, HANG, FakeApi, answer
from teamwright.core.data.extensions.hook import NOTHING, Fired, HookBook
from teamwright.core.ids import AgentId, SessionId
from teamwright.library.hooks import read_hooks
from teamwright.runtime.extensions.hooks import Hooks, HookSession

pytestmark = pytest.mark.anyio
MAIN, CHILD = AgentId("s1"), AgentId("a1")


class Place:
    def __init__(self, root: Path) -> None:
        self.root, self.project = root, root / "project"
        self.project.mkdir()
        self.log: list[str] = []
        self.env = {"PATH": os.environ["PATH"], "HOME": str(root), "SECRET_TOKEN": "s3cret", "LANG": "C.UTF-8"}

    def hooks(self, env: Mapping[str, str] | None = None, **events: Any) -> Hooks:
        session = HookSession(SessionId("s1"), self.root / "s1.jsonl", self.project)
        return Hooks(book(**events), session, env=env or self.env, log=self.log.append)

    async def fire(self, hooks: Hooks, event: Any = "PreToolUse", subject: str = "Bash", **fields: Any) -> Fired:
        given = {"agent": MAIN, "cwd": self.project, "mode": "default"} | fields
        return await hooks.fire(event, subject=subject, **given)

    def seen(self, name: str = "seen") -> list[dict[str, Any]]:
        file = self.root / name
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def book(**events: Any) -> HookBook:
    found, problems = read_hooks([("settings.json", events)])
    assert problems == ()
    return found


def command(text: str, matcher: str = "", **more: Any) -> dict[str, Any]:
    return {"matcher": matcher, "hooks": [{"type": "command", "command": text} | more]}


def http(url: str, **more: Any) -> dict[str, Any]:
    return {"hooks": [{"type": "http", "url": url} | more]}


def said(**own: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": own}


async def gone(pid: int) -> None:
    with anyio.fail_after(10):
        while Path(f"/proc/{pid}").exists():
            await anyio.sleep(0.01)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# --- commands


@pytest.mark.spec("D9")
async def test_a_command_reads_the_call_on_stdin_and_refuses_with_exit_2(place: Place) -> None:
    hooks = place.hooks(PreToolUse=[command(f"cat >> {place.root}/seen; echo not today >&2; exit 2", "Bash")])
    fired = await place.fire(
        hooks, agent=CHILD, agent_type="explore", tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="t1",
        tool_response=None,
    )  # fmt: skip
    assert fired == Fired("deny", "not today", blocked="not today")
    assert place.seen() == [
        {
            "hook_event_name": "PreToolUse", "session_id": "s1", "transcript_path": str(place.root / "s1.jsonl"),
            "cwd": str(place.project), "permission_mode": "default", "agent_id": "a1", "agent_type": "explore",
            "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1",
        }
    ]  # fmt: skip


@pytest.mark.spec("D9")
async def test_json_on_stdout_decides_changes_and_adds(place: Place) -> None:
    own = said(permissionDecision="allow", updatedInput={"command": "echo two"}, additionalContext="mind")
    hooks = place.hooks(PreToolUse=[command(f"echo noise >&2; echo '{json.dumps(own)}'")])
    assert await place.fire(hooks) == Fired("allow", "", {"command": "echo two"}, ("mind",))


async def test_a_command_is_what_the_person_wrote(place: Place) -> None:
    text = "set -- a b\ncat <<'X' | tr a-z A-Z\n$# $HOME \"quoted\"\nX\n[ $# = 2 ] && [[ -z $REPLY ]] && pwd # the end"
    fired = await place.fire(place.hooks(SessionStart=[command(text)]), "SessionStart", "startup")
    assert fired.context == (f'$# $HOME "QUOTED"\n{place.project}',)


@pytest.mark.spec("A10")
async def test_a_command_gets_no_secrets_and_knows_the_project(place: Place) -> None:
    hooks = place.hooks(SessionStart=[command("env; cd /proc/self/fd; ls | wc -l")])
    (text,) = (await place.fire(hooks, "SessionStart", "startup")).context
    assert f"CLAUDE_PROJECT_DIR={place.project}\n" in text and f"TEAMWRIGHT_PROJECT_DIR={place.project}\n" in text
    assert "s3cret" not in text
    assert int(text.split()[-1]) <= 5  # stdin, stdout, stderr, and what ls itself opens: no handles of ours


async def test_a_large_input_that_nobody_reads_and_one_that_is_read(place: Place) -> None:
    large = {"content": "é" * 2_000_000}
    hooks = place.hooks(PreToolUse=[command("exit 0", "Write"), command("wc -c >&2; exit 2", "Edit")])
    with anyio.fail_after(20):
        assert await place.fire(hooks, subject="Write", tool_input=large) == NOTHING
        assert int((await place.fire(hooks, subject="Edit", tool_input=large)).reason) > 4_000_000


@pytest.mark.spec("T8")
async def test_what_breaks_is_told_and_blocks_nothing(place: Place) -> None:
    hooks = place.hooks(
        PostToolUse=[command("echo oops >&2; exit 1"), command("/no/such/program x"), command("kill $$")]
    )
    fired = await place.fire(hooks, "PostToolUse")
    assert fired == Fired(messages=fired.messages)
    one, two, three = fired.messages
    assert "`echo …` (PostToolUse, settings.json) ended with exit status 1: oops" in one
    assert "exit status 127" in two and "exit status 143" in three
    assert len(place.log) == 3 and not any("oops" in line for line in place.log)


@pytest.mark.spec("M10")
@pytest.mark.parametrize(
    ("guard", "why"),
    [
        ("/no/such/guard --strict", "was not found"),
        ("no-such-guard-at-all", "was not found"),
        ("./guard", "cannot be run"),
        ("kill -KILL $$", "ended by signal 9"),
        ("bash -c 'kill -SEGV $$'; exit $?", "ended by signal 11"),
    ],
)
async def test_a_guard_that_could_not_judge_refuses(place: Place, guard: str, why: str) -> None:
    (place.project / "guard").write_text("#!/bin/sh\nexit 0\n")  # not executable
    fired = await place.fire(place.hooks(PreToolUse=[command(guard)]))
    assert fired.decision == "deny" and why in fired.reason and "So the call is refused" in fired.reason
    assert (await place.fire(place.hooks(PreToolUse=[command("exit 1"), command("exit 255")]))).decision is None


@pytest.mark.spec("M10")
async def test_a_gate_past_its_limit_refuses_and_leaves_nothing_alive(place: Place) -> None:
    text = f"(setsid sleep 300 & echo $! > {place.root}/pid; wait) & sleep 300"
    hooks = place.hooks(PreToolUse=[command(text, timeout=2)], PermissionRequest=[command("sleep 300", timeout=0.3)])
    fired = await place.fire(hooks)
    assert fired.decision == "deny" and "did not end within 2 s" in fired.reason
    await gone(int((place.root / "pid").read_text()))
    assert (await place.fire(hooks, "PermissionRequest")).decision == "deny"


@pytest.mark.spec("T8")
async def test_any_other_hook_past_its_limit_is_told(place: Place) -> None:
    fired = await place.fire(place.hooks(PostToolUse=[command("echo words; sleep 300", timeout=0.3)]), "PostToolUse")
    assert fired == Fired(messages=fired.messages) and "did not end within 0.3 s" in fired.messages[0]


async def test_a_call_that_is_given_up_takes_its_hook_along(place: Place) -> None:
    hooks = place.hooks(PreToolUse=[command(f"echo $$ > {place.root}/pid; sleep 300")])
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(place.fire, hooks)
            while not (place.root / "pid").exists() or not (place.root / "pid").read_text().strip():
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
    await gone(int((place.root / "pid").read_text()))


async def test_ten_megabytes_do_not_fill_the_memory(place: Place) -> None:
    flood = f'{sys.executable} -c \'import sys; [f.write("x" * 999 + "\\n") for _ in range(10_000) for f in'
    hooks = place.hooks(SessionStart=[command(f"{flood} (sys.stdout, sys.stderr)]'")])
    tracemalloc.start()
    try:
        fired = await place.fire(hooks, "SessionStart", "startup")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(fired.context[0]) < 31_000 and peak < 9_000_000


@pytest.mark.spec("A12")
async def test_escape_codes_of_a_hook_reach_nobody(place: Place) -> None:
    codes = r"printf '\033]0;owned\007\033[31mred\033[2J\a'"
    hooks = place.hooks(Stop=[command(f"{codes} >&2; exit 2"), command(f"{codes} >&2; exit 1")])
    fired = await place.fire(hooks, "Stop", "")
    assert fired.blocked and fired.blocked.startswith("red")
    assert fired.blocked.isprintable() and fired.messages[0].isprintable()


async def test_binary_output_is_no_answer(place: Place) -> None:
    hooks = place.hooks(
        PreToolUse=[command("printf '\\377'; head -c 5000 /dev/urandom; printf '\\377\\376{' >&2; exit 0")]
    )
    assert await place.fire(hooks) == NOTHING


async def test_hooks_run_at_the_same_time_and_the_strictest_wins(place: Place) -> None:
    """Each waits for the other, so one after the other they would never end."""
    fifo = place.root / "fifo"
    os.mkfifo(fifo)
    allow = json.dumps(said(permissionDecision="allow"))
    one = f"echo x > {fifo}; echo '{allow}'"
    two = f"read -r x < {fifo}; echo no >&2; exit 2"
    hooks = place.hooks(PreToolUse=[command(one, timeout=20), command(two, timeout=20), command(f"echo '{allow}'")])
    with anyio.fail_after(15):
        assert await place.fire(hooks) == Fired("deny", "no", blocked="no")


async def test_only_what_matches_runs_and_the_same_command_runs_once(place: Place) -> None:
    log = f"cat >> {place.root}/"
    events = [command(f"{log}some", "Read|Glob"), command(f"{log}all"), command(f"{log}all", "Bash")]
    hooks = place.hooks(PreToolUse=events)
    for tool in ("Bash", "Read"):
        assert await place.fire(hooks, subject=tool, tool_name=tool) == NOTHING
    assert [x["tool_name"] for x in _objects(place.root / "some")] == ["Read"]
    assert [x["tool_name"] for x in _objects(place.root / "all")] == ["Bash", "Read"]


def _objects(file: Path) -> list[dict[str, Any]]:
    return [json.loads(part) for part in re.split(r"(?<=\})(?=\{)", file.read_text())]


@pytest.mark.spec("W7")
async def test_worktree_create_prints_where(place: Place) -> None:
    hooks = place.hooks(WorktreeCreate=[command("mkdir -p 'a b'; cd 'a b'; pwd")])
    assert (await place.fire(hooks, "WorktreeCreate", "", name="n1")).printed == (str(place.project / "a b"),)


async def test_a_directory_that_is_gone_and_a_machine_without_bash(place: Place, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "cat", "pwd"):
        found = next(d for d in ("/bin", "/usr/bin") if Path(d, name).exists())
        (tools / name).symlink_to(f"{found}/{name}")
    env = place.env | {"PATH": str(tools)}
    hooks = place.hooks(env, PreToolUse=[command("cat > /dev/null; pwd >&2; exit 2")])
    fired = await place.fire(hooks, cwd=tmp_path / "gone", tool_input={})
    assert fired.reason == str(place.project)


@pytest.mark.spec("M10")
async def test_a_guard_that_cannot_be_started_refuses(place: Place, tmp_path: Path) -> None:
    hooks = place.hooks(place.env | {"PATH": str(tmp_path)}, PreToolUse=[command("true")], Stop=[command("true")])
    fired = await place.fire(hooks)
    assert fired.decision == "deny" and "could not be started" in fired.reason
    assert "could not be started" in (await place.fire(hooks, "Stop", "")).messages[0]


# --- HTTP


async def test_an_http_hook_posts_the_payload_and_its_answer_counts(place: Place) -> None:
    async with FakeApi([answer(200, said(permissionDecision="deny", permissionDecisionReason="not here"))]) as server:
        given = {
            "headers": {"X-Key": "Bearer $SECRET_TOKEN", "X-Other": "<${HOME}>"},
            "allowedEnvVars": ["SECRET_TOKEN"],
        }
        hooks = place.hooks(
            place.env | {"HTTP_PROXY": "http://127.0.0.1:1"}, PreToolUse=[http(f"{server.url}/h", **given)]
        )
        fired = await place.fire(hooks, tool_input={"command": "ls"})
    assert fired == Fired("deny", "not here", blocked="not here")
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.json["tool_input"]) == ("POST", "/h", {"command": "ls"})
    assert asked.headers["content-type"] == "application/json"
    assert (asked.headers["x-key"], asked.headers["x-other"]) == ("Bearer s3cret", "<>")


@pytest.mark.parametrize(
    ("play", "words"),
    [
        (answer(500, b"broken \x1b[2J"), "status 500: broken"),
        (answer(302, b"", location="http://127.0.0.1:1/"), "status 302"),
        (answer(200, b"[" + b"x" * (1 << 20)), "longer than"),
        ([CUT], "could not be reached"),
        ([HANG], "did not answer within 0.5 s"),
    ],
)
async def test_a_server_that_fails_is_told(place: Place, play: Any, words: str) -> None:
    async with FakeApi([play]) as server:
        hooks = place.hooks(PostToolUse=[http(server.url, timeout=0.5)])
        fired = await place.fire(hooks, "PostToolUse")
    assert words in fired.messages[0] and fired.messages[0].isprintable() and fired == Fired(messages=fired.messages)


async def test_a_guard_that_no_server_answers_for_refuses(place: Place) -> None:
    async with FakeApi([[HANG]]) as server:
        assert (await place.fire(place.hooks(PreToolUse=[http(server.url, timeout=0.3)]))).decision == "deny"
    assert (await place.fire(place.hooks(PreToolUse=[http(server.url)]))).decision == "deny"  # closed by now


async def test_empty_and_plain_answers(place: Place) -> None:
    async with FakeApi([answer(204), answer(200, b"be brief")]) as server:
        hooks = place.hooks(UserPromptSubmit=[http(server.url)])
        assert await place.fire(hooks, "UserPromptSubmit", "") == NOTHING
        assert (await place.fire(hooks, "UserPromptSubmit", "")).context == ("be brief",)


# --- functions


async def test_functions_of_both_kinds_take_the_payload_and_answer(place: Place) -> None:
    hooks = place.hooks()

    def plain(data: dict[str, Any]) -> dict[str, Any]:
        data["tool_input"]["command"] = "changed"  # its own copy
        return said(additionalContext="plain")

    async def later(data: dict[str, Any]) -> dict[str, Any]:
        return said(additionalContext=data["tool_input"]["command"])

    class Object:
        async def __call__(self, data: dict[str, Any]) -> None:
            data.clear()

    assert not hooks.has("PreToolUse")
    for function in (plain, later, Object(), lambda data: later(data | {"n": 1})):
        hooks.add_callable("PreToolUse", "Bash|Read", function)
    assert hooks.has("PreToolUse") and not hooks.has("Stop")
    args = {"command": "ls"}
    assert (await place.fire(hooks, tool_input=args)).context == ("plain", "ls", "ls")
    assert args == {"command": "ls"} and await place.fire(hooks, subject="Write") == NOTHING


@pytest.mark.parametrize("blocks", [False, True])
async def test_a_function_that_fails_blocks_only_if_that_was_asked_for(place: Place, blocks: bool) -> None:
    def broken(data: dict[str, Any]) -> None:
        raise KeyError("\x1b[2Jnothing")

    hooks = place.hooks()
    hooks.add_callable("PreToolUse", "", broken, blocks=blocks)
    fired = await place.fire(hooks)
    assert fired.decision == ("deny" if blocks else None)
    words = fired.reason or fired.messages[0]
    assert "`broken` (PreToolUse) failed: KeyError" in words and words.isprintable()


async def test_a_function_past_its_limit_and_one_that_answers_nonsense(place: Place) -> None:
    async def never(data: dict[str, Any]) -> None:
        await anyio.sleep_forever()

    hooks = place.hooks()
    hooks.add_callable("PreToolUse", "Bash", never, seconds=0.05)
    hooks.add_callable("PreToolUse", "Read", lambda data: [])  # type: ignore[arg-type,return-value]
    hooks.add_callable("Stop", "", never, seconds=0.05)
    assert "did not answer within 0.05 s" in (await place.fire(hooks)).reason
    assert "answered with list" in (await place.fire(hooks, subject="Read")).reason
    assert "did not answer" in (await place.fire(hooks, "Stop", "")).messages[0]
    with pytest.raises(re.error):
        hooks.add_callable("Stop", "(", never)


# --- whose hooks


@pytest.mark.spec("D9", "Y5")
async def test_hooks_of_an_agent_are_for_its_own_calls_and_end_with_it(place: Place) -> None:
    hooks = place.hooks()
    own = book(PreToolUse=[command(f"cat >> {place.root}/seen; echo >> {place.root}/seen", "Bash")])
    await place.fire(hooks, agent=CHILD, n=1)
    with hooks.scoped(CHILD, own), hooks.scoped(CHILD, own):
        assert hooks.has("PreToolUse", CHILD) and not hooks.has("PreToolUse", MAIN) and hooks.has("PreToolUse")
        await place.fire(hooks, agent=CHILD, n=2)
        await place.fire(hooks, agent=MAIN, n=3)
    await place.fire(hooks, agent=CHILD, n=4)
    assert [x["n"] for x in place.seen()] == [2] and not hooks.has("PreToolUse", CHILD) and not hooks.has("PreToolUse")


@pytest.mark.spec("D9", "T8")
async def test_a_stop_hook_of_a_definition_holds_its_agent(place: Place) -> None:
    hooks = place.hooks()
    with hooks.scoped(CHILD, book(Stop=[command("echo look again >&2; exit 2")])):
        assert hooks.has("SubagentStop", CHILD)
        fired = await place.fire(hooks, "SubagentStop", "explore", agent=CHILD, stop_hook_active=False)
        assert fired.blocked == "look again"
        assert await place.fire(hooks, "SubagentStop", "explore", agent=MAIN) == NOTHING


def test_where_no_hook_is_nothing_is_imported() -> None:
    import subprocess

    code = (
        "import sys, teamwright.runtime.extensions.hooks\n"
        "print([m for m in sys.modules if m.startswith(('teamwright.host', 'aiohttp', 'yaml'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "[]\n"
