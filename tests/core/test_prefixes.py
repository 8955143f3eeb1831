"""The prefix of a command that a rule may allow with any continuation."""

import pytest

from teamwright.core.permissions.prefixes import prefix_of

PREFIXES = {
    "npm run build": "npm run", "npm run test:unit -- --watch": "npm run", "npm test": "npm test", "npm ci": "npm ci",
    "python -m pytest -q tests/a.py": "python -m pytest", "python3.12 -m unittest": "python3.12 -m unittest",
    ".venv/bin/python -m mypy src": ".venv/bin/python -m mypy", ".venv/bin/pytest -x": ".venv/bin/pytest",
    "git add -A": "git add", "git commit -m x": "git commit", "make all": "make", "make": "make",
    "cargo test --all": "cargo test", "cargo nextest run a": "cargo nextest run", "go mod tidy": "go mod tidy",
    "./gradlew test": "./gradlew test", "ruff check .": "ruff check", "uv run pytest -q": "uv run pytest",
    "uv run python -m pytest": "uv run python -m pytest", "bundle exec rspec a": "bundle exec rspec",
}  # fmt: skip

NONE = [
    "git push origin", "git reset --hard", "git checkout .", "git clean -fd", "git -c a=b add x", "git", "npm", "npx x",
    "npm install left-pad", "npm exec x", "npm --prefix x run build", "npm publish", "go run x.go", "cargo run",
    "cargo install x", "cargo publish", "python x.py", "python -c 1", "python -m pip install x", "python -m", "python",
    "python -m http.server", "node x.js", "bash x.sh", "sh -c make", "sudo make", "env make", "xargs make",
    "timeout 5 make", "rm x", "rm -rf build", "curl https://x", "docker run x", "kubectl delete x", "uv run x.py",
    "uv run --with evil pytest", "uv pip install x", "uv run", "poetry run python -c 1", "bundle exec rake db:drop",
    "terraform apply", "yarn run node", "bun run x.ts", "mix run", "unheard-of x", "find . -delete",
]  # fmt: skip


@pytest.mark.spec("M5")
@pytest.mark.parametrize(("command", "prefix"), PREFIXES.items())
def test_program_and_subcommand(command: str, prefix: str) -> None:
    assert prefix_of(tuple(command.split())) == tuple(prefix.split())
    assert prefix_of(command.split()) == tuple(prefix.split())


@pytest.mark.spec("M5")
@pytest.mark.parametrize("command", NONE)
def test_nothing_that_runs_deletes_or_publishes_what_its_words_name(command: str) -> None:
    assert prefix_of(tuple(command.split())) == ()


def test_nothing_comes_of_nothing() -> None:
    assert prefix_of(()) == ()
