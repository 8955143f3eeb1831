"""The landing queue from Python."""

from pathlib import Path

import pytest

from landing_kit import branch
from teamwright import LandEnd, LandEntry, Landing, ScriptedModel, ToolError, session
from worktree_kit import git, new_repo

pytestmark = [pytest.mark.anyio, pytest.mark.spec("LQ13")]


async def test_ready_run_list_and_give_up(tmp_path: Path) -> None:
    repo = new_repo(tmp_path / "repo")
    for name in ("a", "bad", "c"):
        branch(repo, name, {f"{name}.txt": name})
    settings = {"teamwright": {"land": {"check": "test ! -e bad.txt", "method": "rebase"}}}
    heard: list[tuple[str, str]] = []

    def tell(entry: LandEntry) -> None:
        heard.append((entry.draft.branch, entry.state))

    async with session(repo, model=ScriptedModel(["hi"]), home=tmp_path / "home", settings=settings) as agent:
        landing: Landing = agent.landing
        assert await landing.entries() == []
        for name in ("a", "bad"):
            await landing.ready(name)
        late = await landing.ready("c", priority=9)
        assert (await landing.give_up(late.id, "not now")).state == "given_up"
        with pytest.raises(ToolError, match="is given up, so it cannot be given up"):
            await landing.give_up(late.id)
        end: LandEnd = await landing.run(tell)
        assert [(entry.draft.branch, entry.state) for entry in end.done] == [("a", "landed"), ("bad", "sent_back")]
        assert ("a", "trying") in heard and heard[-1] == ("bad", "sent_back")
        assert [entry.state for entry in await landing.entries()] == ["landed", "sent_back", "given_up"]
    assert "a.txt" in git(repo, "ls-tree", "--name-only", "main") and not git(repo, "status", "--porcelain")


async def test_without_a_check_nothing_is_run(tmp_path: Path) -> None:
    repo = new_repo(tmp_path / "repo")
    branch(repo, "a", {"a.txt": "a"})
    async with session(repo, model=ScriptedModel(["hi"]), home=tmp_path / "home") as agent:
        await agent.landing.ready("a")
        with pytest.raises(ToolError, match="No check is set"):
            await agent.landing.run()
