"""cost, config and doctor: for people and, with --json, for programs."""

import json
from typing import Any

import pytest

from fake_api import FakeApi, answer, events, stream
from program import LIMIT, Program

MODEL = "claude-sonnet-4-5"


def plays(block: dict[str, Any], delta: dict[str, Any], stop: str, output: int, **usage: int) -> list[Any]:
    """A reply of one block, as the Messages API streams it."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": MODEL, "content": []}
    rest = {"stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    return stream(
        events(
            [
                {"type": "message_start", "message": message | rest},
                {"type": "content_block_start", "index": 0, "content_block": block},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": output}},
                {"type": "message_stop"},
            ]
        )
    )


def answers(text: str, **usage: int) -> list[Any]:
    delta = {"type": "text_delta", "text": text}
    return plays({"type": "text", "text": ""}, delta, "end_turn", 50, **{"input_tokens": 3} | usage)


async def run(program: Program, api: FakeApi, *args: str, **more: Any) -> Any:
    """Run the program in a thread beside the server, so that the server can answer."""
    from anyio import fail_after, to_thread

    env = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "sk-test", "TEAMWRIGHT_MAX_RETRIES": "1"}
    with fail_after(LIMIT):
        return await to_thread.run_sync(lambda: program.run(*args, env=env | more.pop("env", {}), **more))


@pytest.mark.anyio
@pytest.mark.spec("O5", "F8")
async def test_cost_adds_up_to_what_the_provider_counted(program: Program) -> None:
    usage = {"input_tokens": 1000, "cache_read_input_tokens": 9000, "cache_creation_input_tokens": 500}
    async with FakeApi([answers("hello", **usage)]) as api:
        ran = await run(program, api, "-p", "go", "--model", MODEL, "--output-format", "json")
    result = ran.result
    assert ran.rc == 0 and result["usage"]["cache_read_input_tokens"] == 9000 and result["total_cost_usd"] > 0
    cost = json.loads(program.run("cost", "--json").out)
    assert cost["total_usd"] == pytest.approx(result["total_cost_usd"]) and cost["unknown_cost"] is False
    assert (cost["input_tokens"], cost["cached_tokens"], cost["output_tokens"]) == (10_500, 9000, 50)
    assert cost["saved_by_cache_usd"] > 0
    (agent,) = cost["agents"]
    assert {"id", "name", "parent", "usd", "input_tokens", "cached_tokens", "output_tokens", "seconds"} <= set(agent)
    assert (agent["name"], agent["turns"], agent["session"]) == ("main", 1, result["session_id"])
    table = program.run("cost", result["session_id"]).out
    assert "10,500" in table and "86 %" in table and "$" in table
    assert program.run("cost", "nonsense").rc == 1


@pytest.mark.anyio
@pytest.mark.spec("O6")
async def test_the_budget_ends_a_run_with_one_more_turn_to_report(program: Program) -> None:
    block = {"type": "tool_use", "id": "t", "name": "Glob", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"pattern":"*"}'}
    call = plays(block, delta, "tool_use", 9, input_tokens=900_000)
    async with FakeApi([call, answers("so far", input_tokens=10)]) as api:
        args = ("-p", "go", "--model", MODEL, "--output-format", "json", "--max-budget-usd", "0.01")
        ran = await run(program, api, *args)
    assert ran.rc == 1 and ran.result["subtype"] == "error_max_budget_usd" and len(api.asked) == 2
    assert ran.result["result"] == "so far" and "$0.01" in ran.result["errors"][0]


@pytest.mark.anyio
@pytest.mark.spec("A7", "SE4")
async def test_an_overload_is_retried_and_seen_and_a_wrong_key_is_not(program: Program) -> None:
    overloaded = answer(529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
    async with FakeApi([overloaded, answers("there")]) as api:
        ran = await run(program, api, "-p", "go", "--model", MODEL, "--output-format", "stream-json")
    retries = [line for line in ran.lines if line.get("subtype") == "api_retry"]
    assert ran.rc == 0 and ran.result["result"] == "there" and len(api.asked) == 2
    assert [(r["attempt"], r["max_retries"], r["error_status"]) for r in retries] == [(1, 1, 529)]
    async with FakeApi([overloaded, answers("there")]) as api:
        ran = await run(program, api, "-p", "go", "--model", MODEL)
    assert ran.out == "there\n" and ran.err.count("\n") == 1 and "is overloaded (529). Retry 1 of 1" in ran.err
    refused = answer(401, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}})
    async with FakeApi([refused]) as api:
        ran = await run(program, api, "-p", "go", "--model", MODEL)
    assert ran.rc == 1 and len(api.asked) == 1 and ran.err.count("\n") == 1 and "key" in ran.err


@pytest.mark.anyio
async def test_doctor_asks_the_model_and_names_what_is_wrong(program: Program) -> None:
    async with FakeApi([answers("ok")]) as api:
        ran = await run(program, api, "doctor", "--json", "--model", MODEL)
    found = {f["about"]: f for f in json.loads(ran.out)}
    assert ran.rc == 0 and found["model"]["verdict"] == "ok" and len(api.asked) == 1
    assert {"teamwright", "files", "bash", "git", "ripgrep", "directory", "store"} <= set(found)
    async with FakeApi([answer(401, {"error": {"message": "no"}})]) as api:
        ran = await run(program, api, "doctor", "--model", MODEL)
    assert ran.rc == 1 and "FAULT  model" in ran.out and "sk-test" not in ran.out


def test_doctor_without_a_key_or_with_a_server_that_is_down(program: Program) -> None:
    ran = program.run("doctor")
    assert ran.rc == 1 and "FAULT  model" in ran.out and "ANTHROPIC_API_KEY" in ran.out
    env = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "HTTPS_PROXY": "http://user:hushhush@proxy:1"}
    down = program.run("doctor", "--model", "openai/local", env=env)
    assert down.rc == 1 and "127.0.0.1:1" in down.out and "hushhush" not in down.out


def test_doctor_finds_a_home_that_others_can_read_and_settings_that_are_wrong(program: Program) -> None:
    program.state.mkdir(mode=0o755)
    (program.state / "settings.json").write_text("{")
    found = json.loads(program.run("doctor", "--json").out)
    words = " ".join(f["words"] for f in found if f["verdict"] != "ok")
    assert "settings.json" in words and ("chmod 700" in words or program.state.stat().st_mode & 0o077 == 0)


def test_cost_before_anything_was_used(program: Program) -> None:
    assert program.run("cost").out == "no usage yet\n"
    assert json.loads(program.run("cost", "--json").out)["agents"] == []
    assert not program.state.exists()


def test_config_says_what_holds_and_where_it_comes_from(program: Program) -> None:
    (program.state).mkdir(mode=0o700)
    user = program.state / "settings.json"
    user.write_text(json.dumps({"model": "opus", "permissions": {"deny": ["Bash(rm *)"]}}))
    project = program.project / ".teamwright/settings.json"
    project.parent.mkdir()
    project.write_text(json.dumps({"model": "haiku"}))
    found = json.loads(program.run("config", "--json").out)
    assert found["trusted"] is False and found["project"] == str(program.project) and found["problems"]
    rows = {row["key"]: row for row in found["settings"]}
    assert (rows["model"]["value"], rows["model"]["source"], rows["model"]["file"]) == ("opus", "user", str(user))
    trusted = json.loads(program.run("config", "--json", "--trust").out)
    assert {row["key"]: row["value"] for row in trusted["settings"]}["model"] == "haiku"
    table = program.run("config", "--settings", '{"model": "sonnet"}')
    assert table.rc == 0 and "sonnet" in table.out and "not trusted" in table.out and "rm *" in table.out


@pytest.mark.spec("CL5")
def test_a_long_value_is_wrapped_on_a_terminal_and_pushes_nothing_away_elsewhere(program: Program) -> None:
    settings = json.dumps({"model": "sonnet", "permissions": {"deny": [f"Bash(rm {n} *)" for n in range(30)]}})
    narrow = program.run("config", "--settings", settings, env={"COLUMNS": "80"}).out.split("\n\n")[1]
    assert max(map(len, narrow.splitlines())) <= 80 and "rm 29 *" in " ".join(narrow.split())
    piped = program.run("config", "--settings", settings).out
    (model,) = (line for line in piped.splitlines() if line.startswith("model "))
    assert len(model) < 120 and "Bash(rm 29 *)" in piped


def test_config_tells_of_a_rule_that_does_not_count(program: Program) -> None:
    """An unreadable rule forbids nothing, so its author must be told."""
    program.state.mkdir(parents=True)
    (program.state / "settings.json").write_text('{"permissions": {"deny": ["Bash("]}}')
    ran = program.run("config")
    assert ran.rc == 1 and "`Bash(`" in ran.err and "ignored" in ran.err


@pytest.mark.spec("X7")
def test_a_command_that_sets_a_damaged_store_aside_says_so(program: Program) -> None:
    """Nobody else says it: the next one finds a new store."""
    program.prompt(["hi"])
    store = program.state / "state.db"
    for args in ("jobs", "why", "cost", "tasks", "teams", "inbox", "teams delete x", "land --list",
                 "sessions delete --older-than 9"):  # fmt: skip
        store.write_bytes(b"damaged" * 1_000)
        ran = program.run(*args.split())
        assert "state.db was damaged and is now state.db.corrupt-" in ran.err, args
    assert len(list(program.state.glob("state.db.corrupt-*"))) == 9


UNKNOWN = "openai/no-such-model"
ALLOWED = '{"teamwright":{"unknownPrices":"allow"}}'


@pytest.mark.anyio
@pytest.mark.spec("O6")
async def test_a_budget_in_dollars_is_refused_if_it_cannot_count(program: Program) -> None:
    async with FakeApi([answers("x")]) as api:
        args = ("-p", "go", "--model", UNKNOWN, "--max-budget-usd", "1")
        ran = await run(program, api, *args)
        assert ran.rc == 1 and not ran.out and not api.asked and ran.err.count("\n") == 1
        assert UNKNOWN in ran.err and "$1" in ran.err and "--task-budget" in ran.err and "unknownPrices" in ran.err
        ran = await run(program, api, "-p", "go", "--model", MODEL, "--fallback-model", UNKNOWN, *args[4:])
        assert ran.rc == 1 and UNKNOWN in ran.err and not api.asked
    assert not list(program.home.glob(".teamwright/projects/*/*.jsonl"))


@pytest.mark.spec("O6")
@pytest.mark.parametrize("more", [("--task-budget", "1000000"), ("--settings", ALLOWED)])
def test_a_budget_that_counts_in_part_says_so_at_the_start(program: Program, more: tuple[str, str]) -> None:
    script = program.model(["there"])
    ran = program.run("-p", "go", *script, "--max-budget-usd", "1", *more)
    assert ran.rc == 0 and ran.out == "there\n" and "does not count towards the budget of $1" in ran.err
    ran = program.run("-p", "go", *script, *more)
    assert ran.rc == 0 and "budget" not in ran.err


@pytest.mark.anyio
@pytest.mark.spec("O6")
async def test_a_model_that_is_named_later_is_refused_before_its_first_request(program: Program) -> None:
    prompt = {"description": "d", "prompt": "p", "model": UNKNOWN}
    block = {"type": "tool_use", "id": "t", "name": "Agent", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": json.dumps(prompt)}
    async with FakeApi([plays(block, delta, "tool_use", 9, input_tokens=9), answers("so far", input_tokens=10)]) as api:
        ran = await run(program, api, "-p", "go", "--model", MODEL, "--output-format", "stream-json", "--verbose",
                        "--max-budget-usd", "5")  # fmt: skip
    assert ran.rc == 0 and len(api.asked) == 2 and UNKNOWN in ran.tool_results[0][0]
