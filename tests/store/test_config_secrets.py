"""`teamwright config` and error messages show no password, header or token."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.core.policies.redaction import concealed, redacted, withheld
from teamwright.store.settings.load import describe, load

CANARY = "CANARY7-of-a-secret"
SPOTS: dict[str, Any] = {
    "provider": {"teamwright": {"providers": {"own": {"baseUrl": "https://h/v1", "apiKey": CANARY}}}},
    "address": {"teamwright": {"providers": {"own": {"baseUrl": f"https://me:{CANARY}@h/v1"}}}},
    "address with two": {"env": {"ANTHROPIC_BASE_URL": f"https://me:{CANARY}@x@h/v1"}},
    "user alone": {"env": {"SOMETHING": f"https://{CANARY}@h/v1"}},
    "query": {"mcp": {"a": {"type": "http", "url": f"https://h/x?a=b&access_token={CANARY}#c"}}},
    "header": {"mcp": {"a": {"type": "http", "url": "https://h", "headers": {"X-Mine": CANARY}}}},
    "env": {"mcp": {"a": {"command": "x", "env": {"MY_TOKEN": CANARY}}}},
    "argument": {"mcp": {"a": {"command": "x", "args": ["--api-key", CANARY, f"--token={CANARY}"]}}},
    "hook": {"hooks": {"Stop": [{"hooks": [{"type": "http", "url": "https://h", "headers": {"A": CANARY}}]}]}},
    "hook's url": {"hooks": {"Stop": [{"hooks": [{"type": "http", "url": f"https://h/?token={CANARY}"}]}]}},
    "hook's command": {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"x -H 'X-Token: {CANARY}'"}]}]}},
    "flag": {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"tell --password {CANARY}"}]}]}},
    "odd address": {"teamwright": {"providers": {"own": {"baseUrl": f"https://me:a/b{CANARY}@h/v1"}}}},
    "no scheme": {"teamwright": {"providers": {"own": {"baseUrl": f"me:{CANARY}@h"}}}},
    "code": {"teamwright": {"providers": {"own": {"baseUrl": f"https://h/v1?a=b&code={CANARY}"}}}},
    "further headers": {"teamwright": {"providers": {"own": {"baseUrl": "h", "extraHeaders": {"X-A": CANARY}}}}},
    "signature": {"teamwright": {"providers": {"own": {"baseUrl": "https://h", "query": {"sig": CANARY}}}}},
    "login": {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"curl -u me:{CANARY} h"}]}]}},
    "variable of any name": {"env": {"FOO_PAT": CANARY, "ANY": CANARY, "MORE": f"Bearer {CANARY}"}},
    "plain": {"env": {"MY_SECRET": CANARY, "OTHER": f"so {CANARY} too"}},
}  # fmt: skip


@pytest.mark.spec("A10")
@pytest.mark.parametrize("spot", SPOTS)
def test_no_setting_shows_it(tmp_path: Path, spot: str):
    (tmp_path / ".teamwright").mkdir()
    (tmp_path / ".teamwright" / "settings.json").write_text(json.dumps(SPOTS[spot]))
    found = load(tmp_path, home=tmp_path, state=tmp_path / ".teamwright", trusted=True)
    rows = describe(found)
    assert any(row[2] != "default" for row in rows), rows
    assert CANARY not in str(rows)


@pytest.mark.spec("A10")
def test_what_is_no_secret_is_shown():
    kept = {
        "mcp": {"a": {"command": "npx", "args": ["-y", "server", "--port", "80"], "url": "https://h/x?page=2"}},
        "providers": {"own": {"keyEnv": "OWN_API_KEY", "baseUrl": "https://git@h/v1"}},
        "env": {"DEBUG": "true", "PORT": "80", "JAVA_HOME": "/usr/lib/jvm", "OLLAMA_HOST": "127.0.0.1:80"},
        "budget": {"tokens": 5_000}, "permissions": {"allow": ["Bash(gh auth token *)", "Read(.env)"]},
    }  # fmt: skip
    assert concealed(kept) == kept


_NAMES = st.sampled_from(
    ["apiKey", "X_TOKEN", "password", "client-secret", "Authorization", "cookie", "AWS_CREDENTIAL"]
)
_PLAIN = st.sampled_from(["a", "command", "nested", "list", "value"])
_SECRET = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=8, max_size=20).map("zq7".__add__)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Any, str]:
    """Settings with one secret somewhere deep, under a telling name, and once more where no name tells."""
    secret = draw(_SECRET)
    value: Any = {draw(_NAMES): secret}
    for _ in range(draw(st.integers(0, 4))):
        value = draw(st.sampled_from(("dict", "list", "headers")))
        value = {
            "dict": {draw(_PLAIN): {draw(_NAMES): secret}}, "list": [1, {draw(_NAMES): secret}, "x"],
            "headers": {"headers": {"Any": secret}},
        }[value]  # fmt: skip
    return {"top": value, "said": f"it is {secret}, no?"}, secret


@pytest.mark.spec("A10")
@settings(max_examples=200, deadline=None, database=None)
@given(trees())
def test_a_secret_by_name_stands_nowhere(tree: tuple[Any, str]):
    value, secret = tree
    assert secret not in str(concealed(value, "", withheld(value)))
    assert secret not in redacted(f"the server said {secret} and {secret}.", withheld(value))
