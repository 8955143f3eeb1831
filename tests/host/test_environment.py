"""Tools see what developers' commands need, and no secrets."""

import os
import subprocess
from pathlib import Path

import pytest

from teamwright.host.process.environment import tool_environment


@pytest.mark.spec("A10")
@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
        "GITHUB_TOKEN", "NPM_TOKEN", "NODE_AUTH_TOKEN", "CARGO_REGISTRY_TOKEN", "CARGO_REGISTRIES_X_TOKEN",
        "GOOGLE_APPLICATION_CREDENTIALS", "PGPASSWORD", "DATABASE_URL", "SSH_AUTH_SOCK", "XDG_SECRET", "PYTHON_KEYRING",
        "npm_config__authToken", "KUBECONFIG", "BASH_ENV", "ENV", "SHELLOPTS", "BASH_FUNC_ls%%", "LD_PRELOAD",
        "GIT_DIR", "MAKEFLAGS", "RUST_password", "ANYTHING_ELSE", "XDG_SESSION_COOKIE",
        "NODE_HEADERS",
    ],
)  # fmt: skip
def test_what_stays_outside_unless_it_is_named(name: str) -> None:
    env = {name: "value", "PATH": "/bin"}
    assert name not in tool_environment(env, {})
    assert tool_environment(env, {}, [name])[name] == "value"


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "HOME", "USER", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CACHE_HOME", "VIRTUAL_ENV",
        "PYTHONPATH", "NODE_OPTIONS", "CARGO_HOME", "RUSTUP_HOME", "GOPATH", "JAVA_HOME", "GIT_AUTHOR_NAME",
        "GIT_COMMITTER_EMAIL", "HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE", "DISPLAY", "CONDA_PREFIX", "NO_COLOR",
        "TEAMWRIGHT_HOME",
    ],
)  # fmt: skip
def test_what_passes(name: str) -> None:
    assert tool_environment({name: "/value"}, {})[name] == "/value"


@pytest.mark.spec("M7")
def test_no_program_is_looked_up_where_a_command_stands() -> None:
    found = tool_environment({"PATH": ".:/usr/bin::bin:/bin:"}, {})
    assert found["PATH"] == "/usr/bin:/bin"
    assert tool_environment({"PATH": "."}, {})["PATH"].startswith("/")


@pytest.mark.spec("M7")
def test_git_takes_no_directory_for_a_repository_that_only_looks_like_one(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "docs"], check=True)
    for more in ({}, {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.quiet", "GIT_CONFIG_VALUE_0": "1"}):
        env = tool_environment(os.environ, more)
        done = subprocess.run(
            ["git", "log"], cwd=tmp_path / "docs", env=env, capture_output=True, text=True, check=False
        )
        assert "safe.bareRepository" in done.stderr
    assert env["GIT_CONFIG_COUNT"] == "2" and env["GIT_CONFIG_KEY_0"] == "core.quiet"


@pytest.mark.spec("A10")
@pytest.mark.parametrize(
    ("name", "value", "passes"),
    [
        ("HTTPS_PROXY", "http://proxy:3128", True),
        ("HTTPS_PROXY", "http://me:secret@proxy:3128", False),
        ("http_proxy", "me:secret@proxy:3128", False),
        ("PIP_INDEX_URL", "https://pypi.example/simple", True),
        ("PIP_INDEX_URL", "https://ghp_0123456789abcdef@pypi.example/simple", False),
        ("GOPROXY", "https://user:pw@proxy.example,direct", False),
        ("HTTPS_PROXY", "http://t0k3n-of-me@proxy:3128", False),
        ("UV_INDEX_URL", "https://pypi.example/simple?token=t0k3n", False),
        ("UV_INDEX_URL", "https://pypi.example/simple?page=2", True),
    ],
)
def test_a_secret_inside_an_address_stays_outside(name: str, value: str, passes: bool) -> None:
    assert (name in tool_environment({name: value}, {})) is passes
    assert tool_environment({name: value}, {}, {name})[name] == value


def test_the_last_word_is_the_agents() -> None:
    env = tool_environment({"EDITOR": "vi", "TERM": "xterm", "HOME": "/h"}, {"TEAMWRIGHT_AGENT_ID": "a1", "HOME": "/x"})
    assert (env["EDITOR"], env["TERM"], env["TEAMWRIGHT_AGENT_ID"], env["HOME"]) == ("true", "dumb", "a1", "/x")
    assert tool_environment({}, {})["PATH"], "commands are found also in an empty environment"


def test_git_does_not_wait_for_an_editor(tmp_path: Path) -> None:
    env = tool_environment(os.environ, {"HOME": str(tmp_path)})
    who = {f"GIT_{role}_{what}": "x@y" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for argv in (
        ["init", "-q"],
        ["commit", "-q", "--allow-empty", "-m", "one"],
        ["commit", "--amend", "--allow-empty"],
    ):
        command = ["git", *argv]
        subprocess.run(command, cwd=tmp_path, env=env | who, stdin=subprocess.DEVNULL, timeout=20, check=True)


@pytest.mark.spec("A10")
@pytest.mark.parametrize(
    "name",
    ["PYTHON_API_KEY", "PYTHON_PAT", "NODE_PW", "NODE_MY_PWD", "RUST_CREDS", "CARGO_CRED", "XDG_JWT", "LC_BEARER",
     "CMAKE_SIG", "NIX_URL_SIGNATURE", "python_pat", "PYTHONTOKEN"],
)  # fmt: skip
def test_a_name_like_a_secret_counts_behind_every_prefix(name: str) -> None:
    assert name not in tool_environment({name: "value"}, {})


@pytest.mark.parametrize("name", ["PYTHONPATH", "NIX_PATH", "CARGO_TARGET_DIR", "XDG_DATA_DIRS", "CMAKE_PREFIX_PATH"])
def test_a_name_that_only_holds_such_letters_passes(name: str) -> None:
    assert tool_environment({name: "/value"}, {})[name] == "/value"
