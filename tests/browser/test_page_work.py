"""A day at the page in a real browser: keys alone, names for screen readers, branches, the past, a killed session."""

import os
import re
import signal
from typing import Any

import pytest

from browser_kit import OpenPage, asking
from program import Program, bash, tool
from web_kit import WebHub
from worktree_kit import git, save


def nameless(tab: Any) -> list[str]:
    """Focusable elements without a name, as the browser reports them to a screen reader."""
    tree = tab.context.new_cdp_session(tab).send("Accessibility.getFullAXTree")["nodes"]
    out: list[str] = []
    for node in tree:
        properties = {one["name"]: one["value"].get("value") for one in node.get("properties", ())}
        role = node.get("role", {}).get("value")
        reached = properties.get("focusable") and role not in ("RootWebArea", "main") and not node.get("ignored")
        if reached and not node.get("name", {}).get("value", "").strip():
            out.append(f"{role} {properties}")
    return out


def top_of(rows: Any, text: str) -> float:
    return rows.locator("code", has_text=text).bounding_box()["y"]


@pytest.mark.spec("N28", "N13", "N22")
def test_everything_is_reached_with_keys_and_has_a_name(program: Program, web: WebHub, page: OpenPage) -> None:
    run = asking(program, "touch later", "noted")
    id = web.session()
    tab = page()
    tab.get_by_role("article").first.wait_for()
    for path in ("/", "/sessions", "/new", "/links", "/settings", f"/s/{id}/team", f"/s/{id}/tasks", f"/s/{id}/cost"):
        tab.goto(f"http://127.0.0.1:{web.port}{path}")
        tab.get_by_role("heading", level=1).first.wait_for()
        assert nameless(tab) == [], path
        assert tab.get_by_role("main").count() == 1 and tab.get_by_role("navigation").count() == 1
    tab.keyboard.press("g")
    tab.keyboard.press("n")
    tab.get_by_role("heading", name="Now", exact=True).wait_for()
    for _ in range(4):
        tab.keyboard.press("j")
        if tab.evaluate("document.activeElement.matches('a.title')"):
            break
    tab.keyboard.press("Enter")
    tab.get_by_role("region", name="Conversation").wait_for()
    assert tab.url.endswith(f"/s/{id}/a/{id}")
    tab.keyboard.press("i")
    tab.keyboard.type("be brief, y")
    tab.keyboard.press("Enter")
    tab.get_by_text("queued").wait_for()
    tab.keyboard.press("ArrowUp")
    tab.get_by_text("queued").wait_for(state="detached")
    assert tab.get_by_role("textbox", name="Message main").input_value() == "be brief, y"
    tab.keyboard.press("Escape")
    tab.keyboard.press("g")
    tab.keyboard.press("t")
    tab.get_by_role("region", name="Tasks").wait_for()
    tab.wait_for_timeout(700)  # a question ignores input until then
    tab.keyboard.press("n")
    web.until("/api/now", lambda now: not now["questions"])
    assert not (program.project / "later").exists() and run.process.wait(30) == 0


@pytest.mark.spec("N25", "N30")
def test_a_session_that_was_killed_goes_on_by_a_button(program: Program, web: WebHub, page: OpenPage) -> None:
    run = asking(program, "touch made", "back again", "back again")
    id = web.question()["session"]
    tab = page(f"/s/{id}/a/{id}")
    tab.get_by_role("article", name="main wants to use Bash").wait_for()
    assert "circle" in tab.locator("link[rel=icon]").get_attribute("href")
    os.killpg(run.process.pid, signal.SIGKILL)
    resume = tab.get_by_role("button", name="Resume", exact=True)
    resume.wait_for()
    tab.get_by_text("Its program has ended").wait_for()
    resume.click()
    tab.get_by_text("back again", exact=True).first.wait_for()
    web.until(f"/api/sessions/{id}", lambda session: session["state"] == "ended")


@pytest.mark.spec("N19", "N21")
def test_a_branch_is_looked_at_and_merged_and_the_past_can_only_be_read(
    program: Program, web: WebHub, page: OpenPage
) -> None:
    git(program.project, "init", "-q", "-b", "main")
    git(program.project, "config", "user.name", "A Person")
    git(program.project, "config", "user.email", "person@localhost")
    (program.project / "old.txt").write_text("one\ntwo\nthree\n")
    save(program.project)
    work = "sed -i s/two/2/ old.txt && git commit -qam 'a digit'"
    agent = tool("Agent", description="mend it", prompt="SCRIPT:mend", isolation="worktree")
    script = {"main": [agent, "merged soon"], "mend": [bash(work), "done"]}
    id = program.prompt(script, "--dangerously-skip-permissions").result["session_id"]
    tab = page(f"/s/{id}/changes", 1500, 900)
    changes = tab.get_by_role("region", name="Changes")
    changes.get_by_role("link", name=re.compile("mend it")).click()
    changes.get_by_role("button", name=re.compile("old.txt")).click()
    diff = changes.get_by_role("group", name="Diff of old.txt")
    diff.wait_for()
    assert top_of(diff, "two") == top_of(diff, "2")
    tab.set_viewport_size({"width": 1200, "height": 900})
    tab.wait_for_timeout(100)  # two frames
    assert top_of(diff, "two") < top_of(diff, "2")
    changes.get_by_role("button", name="Preview merge").click()
    changes.get_by_text("Merges cleanly into main: 1 file.").wait_for()
    changes.get_by_role("button", name="Merge", exact=True).click()
    changes.get_by_text("merged").first.wait_for()
    assert (program.project / "old.txt").read_text() == "one\n2\nthree\n"
    tab.goto(f"http://127.0.0.1:{web.port}/s/{id}/a/{id}")
    tab.get_by_role("button", name="Replay this session").click()
    slider = tab.get_by_role("slider", name="Time")
    slider.wait_for()
    assert tab.get_by_role("textbox").count() == 0 and tab.get_by_role("button", name="Send").count() == 0
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    tab.get_by_text("merged soon", exact=True).wait_for(state="detached")
    assert int(slider.input_value()) < int(slider.get_attribute("max")) and "at=" in tab.url
    tab.get_by_role("link", name="Back to now").click()
    tab.get_by_text("merged soon", exact=True).wait_for()


@pytest.mark.spec("N27", "N17")
def test_mail_and_team_have_the_width_of_a_phone(program: Program, web: WebHub, page: OpenPage) -> None:
    mate = {"name": "ada", "team_name": "crew", "subagent_type": "general-purpose", "description": "at work"}
    script = {
        "main": [
            tool("TeamCreate", team_name="crew", description="x"),
            tool("Agent", prompt="SCRIPT:ada", **mate),
            bash("touch asked"),
            "done",
        ],
        "ada": [tool("SendMessage", to="team-lead", summary="a summary of some length", message="x"), "idle"],
    }
    program.start("-p", "go", "--listen", "--permission-mode", "default", script=script)
    id = web.session()
    tab = page(f"/s/{id}/mail", 390, 780, has_touch=True)
    summary = tab.get_by_text("a summary of some length")
    summary.wait_for()
    assert summary.bounding_box()["width"] > 300
    tab.goto(f"http://127.0.0.1:{web.port}/s/{id}/team")
    name = tab.get_by_role("region", name="Agents").get_by_role("link", name="ada")
    name.wait_for()
    assert name.bounding_box()["width"] > 250
    tab.goto(f"http://127.0.0.1:{web.port}/s/{id}/cost")
    table = tab.get_by_role("group", name="Cost of each agent")
    table.wait_for()
    assert table.evaluate("node => node.scrollWidth <= node.clientWidth")


@pytest.mark.spec("N6", "N13")
def test_a_full_link_for_one_session_offers_nothing_else(program: Program, web: WebHub, page: OpenPage) -> None:
    agent = tool("Agent", description="look around", prompt="SCRIPT:child", subagent_type="general-purpose")
    script = {"main": [agent, "done"], "child": ["the report"]}
    id = program.prompt(script, "--dangerously-skip-permissions").result["session_id"]
    tab = page(f"/s/{id}/a/{id}", token=web.link("--session", id)["token"])
    tab.get_by_role("textbox", name="Message main").wait_for()
    tab.get_by_text("What you say resumes it.").wait_for()
    for name in ("New session", "Links"):
        assert tab.get_by_role("navigation", name="Sessions").get_by_role("link", name=name).count() == 0
    child = next(a["id"] for a in web.get(f"/api/sessions/{id}").json["agents"] if a["parent"])
    tab.goto(f"http://127.0.0.1:{web.port}/s/{id}/a/{child}")
    tab.get_by_text("Write to its main agent to resume it.").wait_for()
    assert tab.get_by_role("textbox").count() == 0
    tab.goto(f"http://127.0.0.1:{web.port}/links")
    tab.get_by_text("Nothing is running").wait_for()
    assert tab.get_by_role("button", name="New link").count() == 0
