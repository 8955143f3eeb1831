"""Settings from all sources: precedence, merging, errors, and what a project may not decide."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as fuzzing
from hypothesis import strategies as st

from teamwright.core.errors import SettingsError, UsageError
from teamwright.core.jsontext import decode_object
from teamwright.store.settings.file import layer_of
from teamwright.store.settings.load import describe, load
from teamwright.store.settings.schema import Own, Provider, Settings


class House:
    """A home, a state directory and a project in a temporary directory."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.state = root / "home" / ".teamwright"
        self.project = root / "home" / "work" / "project"
        self.managed = root / "etc" / "managed-settings.json"
        for place in (self.home / ".claude", self.state, self.project / ".claude", self.project / ".teamwright"):
            place.mkdir(parents=True)

    def write(self, path: Path, value: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def load(self, **more: Any) -> Settings:
        return load(
            self.project, **{"home": self.home, "state": self.state, "trusted": True, "managed": self.managed, **more}
        )

    def everywhere(self, make: Any) -> None:
        self.write(self.home / ".claude" / "settings.json", make("user-claude"))
        self.write(self.state / "settings.json", make("user"))
        self.write(self.project / ".claude" / "settings.json", make("project-claude"))
        self.write(self.project / ".teamwright" / "settings.json", make("project"))
        self.write(self.project / ".claude" / "settings.local.json", make("local-claude"))
        self.write(self.project / ".teamwright" / "settings.local.json", make("local"))
        self.write(self.managed, make("managed"))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_nothing_written_means_defaults_and_no_problem(house: House) -> None:
    settings = house.load()
    assert settings.problems == () and settings.own == Own() and settings.model is None and settings.layers == ()
    own = settings.own
    assert (own.silence_seconds, own.model_silence_seconds, own.max_depth, own.max_agents) == (120, 60, 3, 100)
    assert own.background_after_seconds is None and own.teammate_mode == "auto" and not own.fork


@pytest.mark.spec("M3")
def test_rules_of_every_source_are_joined_and_know_where_they_come_from(house: House) -> None:
    house.everywhere(lambda name: {"permissions": {"deny": [f"Bash({name})"], "allow": ["Read"]}})
    settings = house.load(flag='{"permissions": {"deny": ["Bash(flag)"], "ask": ["Write"]}}')
    texts = ["user-claude", "user", "project-claude", "project", "local-claude", "local", "flag", "managed"]
    assert [rule.text for rule in settings.permissions.deny] == [f"Bash({text})" for text in texts]
    assert [rule.source for rule in settings.permissions.deny] == [
        *("user", "user", "project", "project", "local", "local", "flag", "managed")
    ]
    assert [rule.source for rule in settings.permissions.allow] == ["user", "project", "local", "managed"]
    assert [rule.text for rule in settings.permissions.ask] == ["Write"]
    assert {rule.base for rule in settings.permissions.deny} == {house.project}


@pytest.mark.spec("M3")
@pytest.mark.parametrize("without", range(8))
def test_the_highest_source_that_names_a_value_wins(house: House, without: int) -> None:
    house.everywhere(lambda name: {"model": name, "permissions": {"defaultMode": "plan"}})
    order = [
        house.home / ".claude" / "settings.json",
        house.state / "settings.json",
        house.project / ".claude" / "settings.json",
        house.project / ".teamwright" / "settings.json",
        house.project / ".claude" / "settings.local.json",
        house.project / ".teamwright" / "settings.local.json",
        None,
        house.managed,
    ]
    names = ["user-claude", "user", "project-claude", "project", "local-claude", "local", "flag", "managed"]
    for path in order[without + 1 :]:
        if path is not None:
            path.unlink()
    flag = '{"model": "flag"}' if without >= 6 else None
    settings = house.load(flag=flag)
    assert settings.model == names[without]
    assert settings.permissions.default_mode == "plan"


def test_objects_merge_by_key_and_a_provider_is_never_put_together_from_two_files(house: House) -> None:
    house.write(
        house.home / ".claude" / "settings.json",
        {
            "env": {"A": "1", "B": "1"},
            "teamwright": {
                "budget": {"usd": 5, "tokens": 10},
                "providers": {"lab": {"baseUrl": "http://one", "keyEnv": "LAB"}, "x": {"baseUrl": "http://x"}},
            },
        },
    )
    house.write(
        house.state / "settings.json",
        {"env": {"B": "2"}, "teamwright": {"budget": {"usd": 1}, "providers": {"lab": {"baseUrl": "http://two"}}}},
    )
    settings = house.load()
    assert settings.env == {"A": "1", "B": "2"}
    assert (settings.own.budget.usd, settings.own.budget.tokens, settings.own.budget.seconds) == (1, 10, None)
    assert settings.own.providers == {"lab": Provider("http://two"), "x": Provider("http://x")}
    assert settings.problems == ()


def test_hooks_of_all_sources_are_kept_beside_each_other(house: House) -> None:
    house.everywhere(lambda name: {"hooks": {"Stop": [name]}})
    assert [(hooks.source, hooks.events["Stop"][0]) for hooks in house.load().hooks][1::2] == [
        ("user", "user"),
        ("project", "project"),
        ("local", "local"),
    ]
    assert house.load().hooks[-1].source == "managed"


def test_every_name_of_our_own_block_is_read(house: House) -> None:
    block = {
        "fork": True, "background": False, "teammateMode": "tmux", "backgroundAfterSeconds": 9, "silenceSeconds": 1.5,
        "modelSilenceSeconds": 2, "maxAgents": 4, "maxDepth": 5, "maxMcpTools": 7, "lean": True, "handOffCheck": True,
        "questionTimeoutSeconds": 6, "mcpFormDefaults": True, "mirrorSessions": True,
        "shutdownTimeoutSeconds": 7, "adoptSeconds": 8, "jobWaitSeconds": 10, "assistant": True, "coordinator": True,
        "proactiveSeconds": 11, "agentSummaries": True, "summarySeconds": 12, "promptSuggestions": True,
        "sessionMemory": True, "memoryTurns": 13, "consolidateMemory": True, "trustedDirectories": ["~/work", "/srv/x"],
        "consolidateSeconds": 14, "preferTmux": True, "splitPanes": False, "notify": "bell", "notifySeconds": 15,
        "unknownPrices": "allow", "terminalTitle": False, "budget": {"usd": 1, "tokens": 2, "seconds": 3},
        "providers": {"ollama": {"baseUrl": "http://x", "keyEnv": "K", "wire": "openai"}},
        "mail": {"kib": 1, "perMinute": 2, "unread": 3, "answers": 4},
        "land": {"check": "make", "checkSeconds": 5, "target": "trunk", "method": "rebase", "ahead": 2},
        "sandbox": {"hooks": "all", "servers": "none", "caches": False}, "windows": {"m": 8192},
        "webSearch": {"provider": "searxng", "url": "http://x", "keyEnv": "K", "model": "m", "results": 5},
        "engine": {"url": "nats://h", "creds": "/k", "fetchFrom": ["/srv/"], "ca": "/c", "patienceSeconds": 5},
    }  # fmt: skip
    house.write(house.state / "settings.json", {"teamwright": block, "worktree": {"symlinkDirectories": [".venv"]}})
    settings = house.load()
    assert settings.problems == ()
    assert not [f for f in Own.__struct_fields__ if getattr(settings.own, f) == getattr(Own(), f)]
    assert settings.trusted_directories == (house.home / "work", Path("/srv/x"))
    assert settings.symlink_directories == (".venv",)


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ('{\n  "model": "x",\n  "env": {"A": oops}\n}', ":3:16:", "invalid character"),
        ('{"model": "x",}', ":1:15:", "trailing comma"),
        ('{\n"model": "x"', ":2:13:", "ends too early"),
        ('{"é": "\x01"}', ":1:", "invalid"),
        ("[1]", ":", "must be a JSON object"),
        ("[" * 100_000, ":", "nested too deeply"),
    ],
)
def test_a_broken_file_is_named_by_line_and_column_and_the_rest_works(
    house: House, text: str, place: str, reason: str
) -> None:
    path = house.write(house.project / ".claude" / "settings.json", text)
    house.write(house.state / "settings.json", {"model": "mine", "permissions": {"deny": ["Bash(rm *)"]}})
    settings = house.load()
    (problem,) = settings.problems
    assert problem.startswith(f"{path}{place}") and reason in problem
    assert settings.model == "mine" and settings.permissions.deny[0].text == "Bash(rm *)"


def test_bytes_that_are_not_utf8_and_a_byte_order_mark(house: House) -> None:
    path = house.project / ".claude" / "settings.json"
    path.write_bytes(b'{\n"model": "\xff"}')
    assert house.load().problems[0].startswith(f"{path}:")
    path.write_bytes(b'\xef\xbb\xbf{"model": "x"}')
    assert house.load().model == "x" and not house.load().problems
    path.write_bytes(b" \n")
    assert not house.load().problems


def test_only_the_part_with_the_wrong_type_is_skipped(house: House) -> None:
    path = house.write(
        house.state / "settings.json",
        {
            "model": 7,
            "effort": "enormous",
            "permissions": {"deny": ["Bash(rm *)", 5], "allow": "Read", "defaultMode": "yolo"},
            "env": {"A": "1", "B": 2},
            "teamwright": {"fork": "yes", "maxDepth": 2, "silenceSeconds": -1, "budget": 3, "providers": {"x": {}}},
            "hooks": [],
            "somebodyElses": {"anything": 1},
        },
    )
    settings = house.load()
    keys = [problem.removeprefix(f"{path}: ").split(":")[0] for problem in settings.problems]
    own = ("fork", "silenceSeconds", "budget", "providers.x")
    others = (
        "model",
        "effort",
        "permissions.deny[1]",
        "permissions.allow",
        "permissions.defaultMode",
        "env.B",
        "hooks",
    )
    assert sorted(keys) == sorted([*others, *(f"teamwright.{name}" for name in own)])
    assert [rule.text for rule in settings.permissions.deny] == ["Bash(rm *)"]
    assert settings.env == {"A": "1"} and settings.own == Own(max_depth=2)


def test_unknown_names_are_told_only_in_our_own_block(house: House) -> None:
    path = house.write(
        house.state / "settings.json",
        {
            "theme": "dark",
            "permissions": {"x": 1},
            "teamwright": {"frok": True, "budget": {"eur": 1}, "mail": {"size": 1}},
        },
    )
    assert house.load().problems == (
        f"{path}: teamwright.frok: unknown setting; ignored",
        f"{path}: teamwright.budget.eur: unknown setting; ignored",
        f"{path}: teamwright.mail.size: unknown setting; ignored",
    )


def test_problems_never_carry_control_characters(house: House) -> None:
    house.write(house.state / "settings.json", {"teamwright": {"\x1b[2J\u202e": 1, "teammateMode": "\x1b]0;x\x07"}})
    problems = house.load().problems
    assert len(problems) == 2 and all(problem.isprintable() for problem in problems)


def test_project_files_are_not_opened_unless_the_directory_is_trusted(house: House) -> None:
    house.everywhere(lambda name: "{broken" if name.startswith(("project", "local")) else {"model": name})
    house.managed.unlink()
    settings = house.load(trusted=False)
    assert settings.problems == () and settings.model == "user"
    assert len(house.load(trusted=True).problems) == 4


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_what_a_project_may_not_decide_even_if_trusted(house: House, name: str) -> None:
    values = {
        "env": {
            **dict.fromkeys(["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "MY_KEY", "X_TOKEN", "https_proxy"], "bad"),
            "DEBUG": "1",
        },
        "permissions": {"defaultMode": "bypassPermissions", "allow": ["Bash(ls)"]},
        "enableAllProjectMcpServers": True,
        "teamwright": {
            "providers": {"x": {"baseUrl": "http://bad"}},
            "trustedDirectories": ["/"],
            "webSearch": {"provider": "searxng", "url": "http://bad"},
            "maxDepth": 1,
        },
    }
    house.write(house.project / ".claude" / name, values)
    house.write(house.state / "settings.json", {"permissions": {"defaultMode": "plan"}})
    settings = house.load()
    assert len(settings.problems) == 10
    assert settings.env == {"DEBUG": "1"} and settings.own == Own(max_depth=1)
    assert settings.permissions.default_mode == "plan" and settings.permissions.default_mode_source == "user"
    assert not settings.enable_all_project_mcp_servers and settings.trusted_directories == ()
    assert settings.permissions.allow[0].text == "Bash(ls)"
    house.write(house.state / "settings.json", values)
    mine = house.load(trusted=False)
    assert mine.problems == () and mine.permissions.default_mode == "bypassPermissions" and len(mine.env) == 6


def test_setting_sources_limits_what_is_read_but_not_the_policy(house: House) -> None:
    house.everywhere(lambda name: {"permissions": {"deny": [name]}})
    for sources in ([], ["user"], ["project"], ["local", "user"]):
        found = {rule.source for rule in house.load(sources=sources).permissions.deny}
        assert found == {*sources, "managed"}


def test_the_flag_takes_a_file_or_json_and_must_be_readable(house: House) -> None:
    house.write(house.project / "sub" / "s.json", {"model": "from-file"})
    assert house.load(flag="s.json", cwd=house.project / "sub").model == "from-file"
    assert house.load(flag=' {"model": "typed"}').model == "typed"
    house.write(house.home / "h.json", {"model": "home"})
    assert house.load(flag="~/h.json").model == "home"
    house.write(house.project / "bad.json", "{")
    for flag in ("missing.json", "bad.json", "{oops}", ".claude"):
        with pytest.raises(UsageError, match="--settings"):
            house.load(flag=flag)
    assert house.load(flag='{"model": 1, "env": {"A": "1"}}').problems[0].startswith("--settings: model: ")


def test_a_policy_that_cannot_be_read_stops_the_program(house: House) -> None:
    house.write(house.managed, "{")
    with pytest.raises(SettingsError, match="managed policy"):
        house.load()


def test_fifos_directories_and_huge_files_are_reported_not_waited_for(house: House) -> None:
    os.mkfifo(house.project / ".claude" / "settings.json")
    (house.project / ".teamwright" / "settings.json").mkdir()
    with (house.state / "settings.json").open("wb") as file:
        file.truncate(20_000_000_000)
    (house.home / ".claude" / "settings.json").symlink_to(house.home / ".claude" / "settings.json")
    problems = house.load().problems
    assert len(problems) == 4
    assert [any(word in p for p in problems) for word in ("regular file", "larger than", "symbolic links")] == [
        True
    ] * 3


def test_directories_are_made_absolute(house: House) -> None:
    dirs = {"permissions": {"additionalDirectories": ["../other", "~/lib", "/srv"]}}
    house.write(house.project / ".claude" / "settings.json", dirs)
    found = house.load().permissions.additional_directories
    assert found == (house.project / "../other", house.home / "lib", Path("/srv"))
    house.write(house.state / "settings.json", {"teamwright": {"trustedDirectories": ["work"]}})
    settings = house.load()
    assert settings.trusted_directories == () and "must begin with" in settings.problems[0]


def test_in_the_home_directory_the_users_own_file_is_not_a_projects(house: House) -> None:
    house.write(house.home / ".claude" / "settings.json", {"env": {"MY_KEY": "1"}})
    settings = load(house.home, home=house.home, state=house.state, trusted=True, managed=house.managed)
    assert settings.env == {"MY_KEY": "1"} and settings.problems == ()


def test_describe_tells_value_source_and_file_and_hides_secrets(house: House) -> None:
    low = house.write(house.home / ".claude" / "settings.json", {"model": "a", "permissions": {"deny": ["X"]}})
    high = house.write(house.project / ".teamwright" / "settings.json", {"model": "b", "permissions": {"deny": ["Y"]}})
    mine = house.write(
        house.state / "settings.json",
        {"env": {"API_KEY": "sk-secret"}, "mcp": {"s": {"env": {"TOKEN": "sk-secret"}}}, "teamwright": {"maxDepth": 7}},
    )
    rows = describe(house.load())
    assert ("model", "b", "project", str(high)) in rows and not any(row[1] == "a" for row in rows)
    assert ("permissions.deny", "X", "user", str(low)) in rows and (
        "permissions.deny",
        "Y",
        "project",
        str(high),
    ) in rows
    assert ("teamwright.maxDepth", 7, "user", str(mine)) in rows
    assert ("teamwright.maxAgents", 100, "default", "") in rows
    assert "sk-secret" not in str(rows) and "env.API_KEY" in str(rows)


# --- properties

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "~", "/x", "\x1b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["", "a", "~", "/x", "\x1b"]), inner, max_size=3)
    ),
    max_leaves=5,
)
_KEYS = st.sampled_from(
    ["permissions", "env", "model", "effort", "effortLevel", "hooks", "mcp", "worktree", "teamwright"]
)
_OWN = st.sampled_from(["fork", "budget", "providers", "windows", "trustedDirectories", "maxDepth", "allow", "deny"])


@fuzzing(deadline=None, max_examples=60, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(_KEYS, _JSON | st.dictionaries(_OWN, _JSON, max_size=4), max_size=5))
def test_whatever_a_file_says_settings_come_out(value: dict[str, Any]) -> None:
    none = Path("/nonexistent")
    with TemporaryDirectory() as state:
        (Path(state) / "settings.json").write_text(json.dumps(value))
        settings = load(none, home=none, state=Path(state), trusted=True, managed=none)
    assert isinstance(settings.own, Own)
    describe(settings)
    layer_of(value, "project", "file", [])


@fuzzing(deadline=None, max_examples=60, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=60))
def test_decoding_gives_an_object_or_a_settings_error(data: bytes) -> None:
    try:
        assert isinstance(decode_object(data, "file"), dict)
    except SettingsError as error:
        assert str(error).startswith("file")


@pytest.mark.spec("A16")
def test_language_servers_are_read_one_by_one(house: House) -> None:
    good = {"command": "x", "args": ["--stdio"], "extensions": [".py"], "options": {"a": {"b": 1}}, "waitSeconds": 3}
    bad = {"none": {"command": "x"}, "typo": good | {"comand": "y"}, "slow": good | {"waitSeconds": 99}, "odd": 5}
    house.write(house.home / ".claude" / "settings.json", {"lsp": {"py": good, **bad}})
    house.write(house.state / "settings.json", {"lsp": {"go": {"command": "gopls", "extensions": ["go"]}}})
    settings = house.load()
    assert list(settings.lsp) == ["py", "go"] and settings.lsp["py"].wait_seconds == 3
    assert [any(f"lsp.{name}" in problem for problem in settings.problems) for name in bad] == [True] * 4
