"""Settings that people bring: styles, languages, commit trailers, keys from a command, models for planning."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from conftest import Walker
from fake_api import FakeApi, answer, events, stream
from teamwright.app import Options, open_session
from teamwright.core.data.op import SetMode, SetModel
from teamwright.core.errors import ModelError, UsageError

pytestmark = pytest.mark.anyio
KEY = {"ANTHROPIC_API_KEY": "k"}


def use(walker: Walker, **settings: Any) -> None:
    file = walker.home / ".claude/settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(settings))


async def told(walker: Walker, **more: Any) -> str:
    walk = await walker.walk(["end"], **more)
    return "\n\n".join(walk.model.requests[0].system)


@pytest.mark.spec("BR4")
async def test_a_style_stands_beside_or_in_place_of_the_usual_words(walker: Walker) -> None:
    usual = "You are Teamwright"
    use(walker, outputStyle="Explanatory")
    text = await told(walker)
    assert usual in text and "# Style: explanatory" in text
    styles = walker.home / ".claude/output-styles"
    styles.mkdir()
    (styles / "poet.md").write_text("---\nname: Poet\n---\nAnswer in verse.")
    use(walker, outputStyle="poet")
    text = await told(walker)
    assert "Answer in verse." in text and usual not in text and str(walker.project) in text
    assert usual in await told(walker, settings='{"outputStyle": "default"}')
    use(walker, outputStyle="prose")
    walk = await walker.walk(["end"])
    assert any("there is no style `prose`" in note for note in walk.session.notes)


@pytest.mark.spec("BR4")
async def test_a_language_and_the_last_lines_of_commits(walker: Walker) -> None:
    use(walker, language="Danish", attribution={"commit": "Made-with: care", "pr": ""}, includeCoAuthoredBy=True)
    text = await told(walker)
    assert "Answer the person in Danish." in text and "message that you write with this:\nMade-with: care" in text
    assert "pull request" not in text
    use(walker, includeCoAuthoredBy=False)
    assert "message that you write with" not in await told(walker)


@pytest.mark.spec("BR5")
async def test_bypass_can_be_turned_off_for_good(walker: Walker) -> None:
    use(walker, permissions={"disableBypassPermissionsMode": "disable", "defaultMode": "bypassPermissions"})
    with pytest.raises(UsageError, match=r"turned off by permissions.disableBypassPermissionsMode in .*settings.json"):
        await walker.walk(["end"], mode="bypassPermissions", may_bypass=True)
    walk = await walker.walk(["end"])
    assert walk.session.main.mode == "default" and any("defaultMode" in note for note in walk.session.notes)
    with pytest.raises(UsageError):
        await walk.session.submit(SetMode("bypassPermissions"))
    (walker.home / ".claude/agents").mkdir()
    free = "---\ndescription: d\npermissionMode: bypassPermissions\n---\nYou are free."
    (walker.home / ".claude/agents/free.md").write_text(free)
    walk = await walker.walk(["end"], agent="free")
    assert walk.session.main.mode == "default"


# --- models and keys


def hi() -> Sequence[Any]:
    start: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "x",
        "stop_reason": None,
    }
    lines: list[dict[str, Any]] = [
        {"type": "message_start", "message": start | {"usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return stream(events(lines))


async def ask(walker: Walker, api: FakeApi, *steps: Any, **more: Any) -> None:
    """Prompts, and ops between them."""
    env = walker.env | {"ANTHROPIC_BASE_URL": api.url} | more.pop("env", {})
    session = await open_session(Options(cwd=walker.project, env=env, **more))
    async with session:
        for step in steps:
            if isinstance(step, str):
                await session.ask(step)
            else:
                await session.submit(step)


@pytest.mark.spec("BR6")
async def test_one_model_plans_and_another_one_works(walker: Walker) -> None:
    use(walker, model="opusplan")
    async with FakeApi([hi()]) as api:
        await ask(walker, api, "a", SetMode("plan"), "b", SetMode("default"), "c", SetModel("haiku"), "d", env=KEY)
        await ask(walker, api, "e", mode="plan", env=KEY)
    names = [asked.json["model"].split("-")[1] for asked in api.asked]
    assert names == ["sonnet", "opus", "sonnet", "haiku", "opus"]


@pytest.mark.spec("BR6")
async def test_default_and_long_windows_are_names_of_models(walker: Walker) -> None:
    use(walker, model="default")
    async with FakeApi([hi()]) as api:
        await ask(walker, api, "a", env=KEY)
        await ask(walker, api, "b", env=KEY, model="default")
        use(walker, model="sonnet[1m]")
        await ask(walker, api, "c", env=KEY)
    assert len({asked.json["model"] for asked in api.asked}) == 1


@pytest.mark.spec("BR6")
async def test_a_model_that_nobody_knows_is_told_with_its_file(walker: Walker) -> None:
    use(walker, model="sonett")
    with pytest.raises(ModelError, match=r"\.claude/settings.json, `model`: The model `sonett` is not known: did you"):
        await open_session(Options(cwd=walker.project, env=walker.env | KEY))


@pytest.mark.spec("BR6")
@pytest.mark.parametrize("setting", [{"alwaysThinkingEnabled": False}, {"env": {"MAX_THINKING_TOKENS": "0"}}])
async def test_thinking_can_be_turned_off(walker: Walker, setting: dict[str, Any]) -> None:
    async with FakeApi([hi()]) as api:
        await ask(walker, api, "a", env=KEY)
        use(walker, **setting)
        await ask(walker, api, "b", env=KEY)
    first, second = api.asked
    assert "thinking" in first.json and second.json.get("thinking", {}).get("type") in (None, "disabled")


def helper(walker: Walker, then: str = "printf 'key-%s\\n' \"$(wc -l < calls)\"") -> str:
    return f"cd '{walker.home}'; echo x >> calls; {then}"


@pytest.mark.spec("BR7")
async def test_a_command_gives_the_key_which_is_kept_for_a_while(walker: Walker) -> None:
    use(walker, apiKeyHelper=helper(walker))
    async with FakeApi([hi()]) as api:
        await ask(walker, api, "a", "b")
        await ask(walker, api, "c", "d", env={"CLAUDE_CODE_API_KEY_HELPER_TTL_MS": "0"})
        await ask(walker, api, "e", env=KEY)
    keys = [asked.headers["x-api-key"] for asked in api.asked]
    assert keys == ["key-1", "key-1", "key-2", "key-3", "k"]
    assert api.asked[0].headers["authorization"] == "Bearer key-1" and "authorization" not in api.asked[-1].headers
    stored = b"".join(path.read_bytes() for path in (walker.home / ".teamwright").rglob("*") if path.is_file())
    assert b"key-1" not in stored


@pytest.mark.spec("BR7")
async def test_a_key_that_is_refused_is_fetched_again_once(walker: Walker) -> None:
    use(walker, apiKeyHelper=helper(walker))
    no = answer(401, {"type": "error", "error": {"type": "authentication_error", "message": "expired"}})
    async with FakeApi([no, hi()]) as api:
        await ask(walker, api, "a")
    assert [asked.headers["x-api-key"] for asked in api.asked] == ["key-1", "key-2"]


@pytest.mark.spec("BR7")
@pytest.mark.parametrize(
    ("then", "words"),
    [("echo half-a-key; exit 3", "exit status 3"), ("true", "printed nothing"), ("printf 'a\\nb'", "not one line")],
)
async def test_a_command_that_gives_no_key_ends_the_turn_and_shows_nothing(
    walker: Walker, then: str, words: str
) -> None:
    use(walker, apiKeyHelper=helper(walker, then))
    async with FakeApi([hi()]) as api:
        session = await open_session(Options(cwd=walker.project, env=walker.env | {"ANTHROPIC_BASE_URL": api.url}))
        async with session:
            end = await session.ask("a")
    assert words in end.error and "apiKeyHelper of" in end.error and "half-a-key" not in end.error and not api.asked


@pytest.mark.spec("BR7")
async def test_a_projects_command_runs_only_if_it_is_trusted(walker: Walker) -> None:
    folder = walker.project / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"apiKeyHelper": helper(walker)}))
    async with FakeApi([hi()]) as api:
        with pytest.raises(ModelError):
            await ask(walker, api, "a")
        await ask(walker, api, "a", trust=True)
    assert len(api.asked) == 1 and (walker.home / "calls").read_text() == "x\n"
