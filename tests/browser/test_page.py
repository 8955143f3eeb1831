"""The page in a real browser: with a mouse, with keys alone, on a phone, and against hostile text.

Skipped if Chromium or Playwright is missing; no browser is ever downloaded.
"""

import re

import pytest

from browser_kit import OpenPage, asking
from landing_kit import branch
from program import Program, bash, tool
from web_kit import WebHub
from worktree_kit import new_repo

EVIL = (
    '<img src=x onerror="window.pwned=1"><script>window.pwned=2</script> [here](javascript:window.pwned=3) '
    "<b>bold</b> \u202etxt.exe [good](https://example.org/a) ![pic](https://example.org/p.png)"
)


@pytest.mark.spec("N12", "N28", "N30")
def test_a_question_is_answered_with_keys_alone(program: Program, web: WebHub, page: OpenPage) -> None:
    asking(program, "touch by-key")
    tab = page()
    card = tab.get_by_role("region", name="Waiting for you").get_by_role("article", name="main wants to use Bash")
    card.get_by_text("touch by-key").first.wait_for()
    assert tab.title().startswith("(1) ")
    for name in ("Allow once", "Always for main", "Always for all", "No", "No, because…"):
        assert card.get_by_role("button", name=name, exact=True).count() == 1
    assert tab.get_by_role("navigation", name="Sessions").count() == tab.get_by_role("main").count() == 1
    tab.keyboard.press("?")
    tab.get_by_role("dialog", name="Keys").wait_for()
    tab.keyboard.press("Escape")
    tab.wait_for_timeout(700)  # a new question ignores input until then
    tab.keyboard.press("y")
    card.wait_for(state="detached")
    web.until("/api/now", lambda now: not now["sessions"])
    assert (program.project / "by-key").exists()


@pytest.mark.spec("N12")
def test_a_key_that_comes_too_soon_or_while_typing_answers_nothing(program: Program, page: OpenPage) -> None:
    asking(program, "touch too-soon")
    tab = page()
    tab.get_by_role("article").first.wait_for()
    tab.keyboard.press("y")
    tab.keyboard.press("w")
    reason = tab.get_by_role("textbox", name="Why not")
    reason.wait_for()
    tab.wait_for_timeout(700)
    reason.type("yay")
    assert reason.input_value() == "yay" and not (program.project / "too-soon").exists()
    reason.press("Enter")
    tab.get_by_role("article", name="main wants to use Bash").wait_for(state="detached")
    assert not (program.project / "too-soon").exists()


@pytest.mark.spec("N29", "N22", "N15")
def test_text_never_becomes_markup_and_the_address_says_what_is_open(
    program: Program, web: WebHub, page: OpenPage
) -> None:
    id = program.prompt([[EVIL, bash("printf '<svg onload=window.pwned=4>'")], "the end"]).result["session_id"]
    tab = page(f"/s/{id}/a/{id}")
    talk = tab.get_by_role("region", name="Conversation")
    talk.get_by_text("the end", exact=True).wait_for()
    talk.get_by_role("button", name=re.compile("Bash")).click()
    talk.get_by_label("Result").wait_for()
    words = talk.inner_text()
    assert "onerror" in words and "\\u202e" in words and tab.evaluate("window.pwned") is None
    bad = "main script, main img, main svg[onload], main b, a[href^='javascript']"
    assert tab.evaluate(f'document.querySelectorAll("{bad}").length') == 0
    good = talk.get_by_role("link", name="good")
    assert good.get_attribute("rel").startswith("noopener") and good.get_attribute("target") == "_blank"
    tab.get_by_role("link", name="Cost").first.click()
    tab.get_by_role("region", name="Cost").wait_for()
    assert tab.url.endswith(f"/s/{id}/cost")
    tab.go_back()
    talk.get_by_text("the end", exact=True).wait_for()
    assert tab.url.endswith(f"/s/{id}/a/{id}") and tab.evaluate("document.cookie") == ""


SMALL = """() => [...document.querySelectorAll("main button")]
  .filter((one) => one.offsetHeight && one.offsetHeight < 44).map((one) => `${one.innerText} ${one.offsetHeight}`)"""


@pytest.mark.spec("N27")
def test_tasks_and_mail_have_targets_for_a_thumb(program: Program, page: OpenPage) -> None:
    lead = [tool("TeamCreate", team_name="crew"), tool("TaskCreate", subject="grammar", description="x")]
    mate = tool("Agent", description="x", prompt="SCRIPT:ada", subagent_type="general-purpose", name="ada")
    script = {"main": [*lead, mate, "done"], "ada": ["idle"]}
    id = program.prompt(script, "--dangerously-skip-permissions").result["session_id"]
    tab = page(f"/s/{id}/tasks", 360, 740, has_touch=True)
    for path, shown in (("tasks", "grammar"), ("mail", "is idle")):
        tab.get_by_role("link", name=path.capitalize()).first.click()
        tab.get_by_role("main").get_by_text(shown).first.wait_for()
        assert tab.evaluate(SMALL) == [], path


@pytest.mark.spec("N27")
def test_a_phone_has_everything_within_reach(program: Program, web: WebHub, page: OpenPage) -> None:
    asking(program, "touch tapped; " + "x" * 300)
    tab = page("/", 360, 740, has_touch=True)
    allow = tab.get_by_role("button", name="Allow once")
    allow.wait_for()
    id = web.session()
    box = allow.bounding_box()
    assert box["height"] >= 44 and 0 <= box["x"] <= box["x"] + box["width"] <= 360
    for path in (f"/s/{id}/a/{id}", f"/s/{id}/tasks", f"/s/{id}/cost", "/sessions", "/new", "/links", "/settings", "/"):
        tab.goto(f"http://127.0.0.1:{web.port}{path}")
        tab.get_by_role("navigation").wait_for()
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360, path
    tab.wait_for_timeout(700)
    tab.get_by_role("button", name="Allow once").tap()
    web.until("/api/now", lambda now: not now["questions"])


CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const color = parse(getComputedStyle(node).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const out = [];
  for (const node of document.querySelectorAll("#app *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.offsetParent || node.closest("kbd")) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(ground(node))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) out.push(`${node.className} ${node.textContent.slice(0, 30)}`);
  }
  return out;
}"""


@pytest.mark.spec("N28")
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_word_can_be_read(program: Program, web: WebHub, page: OpenPage, theme: str) -> None:
    asking(program, "touch seen")
    tab = page("/", color_scheme=theme)
    tab.get_by_role("article").first.wait_for()
    id = web.session()
    for path in ("/", f"/s/{id}/a/{id}", f"/s/{id}/tasks", f"/s/{id}/cost"):
        tab.goto(f"http://127.0.0.1:{web.port}{path}")
        tab.get_by_role("article").first.wait_for()
        assert tab.evaluate(CONTRAST) == [], path


@pytest.mark.spec("N23", "N13", "N2")
def test_a_hub_that_was_away_is_found_again_and_a_revoked_key_locks(
    program: Program, web: WebHub, page: OpenPage
) -> None:
    id = program.prompt(["one"]).result["session_id"]
    tab = page(f"/s/{id}/a/{id}")
    tab.get_by_text("one", exact=True).wait_for()
    box = tab.get_by_role("textbox", name="Message main")
    box.fill("kept words")
    web.close(kill=True)
    tab.get_by_text("Reconnecting").first.wait_for()
    assert program.prompt(["one", "two"], "--resume", id).result["result"] == "two"
    again = WebHub(program, port=web.port)
    assert again.port == web.port
    try:
        tab.get_by_text("two", exact=True).wait_for()
        assert tab.get_by_text("one", exact=True).count() == 1 and box.input_value() == "kept words"
        again.key = web.key
        for link in again.get("/api/links").json["links"]:
            if link["last_used"] and not link["current"]:
                again.post(f"/api/links/{link['id']}/revoke")
        tab.get_by_text("This browser has no key").wait_for()
    finally:
        again.close()


@pytest.mark.spec("LQ15")
def test_the_landing_queue_stands_below_the_changes(program: Program, page: OpenPage) -> None:
    program.project.rmdir()
    repo = new_repo(program.project)
    branch(repo, "feature", {"a.txt": "a"})
    id = program.prompt(["done"]).result["session_id"]
    assert program.run("land", "feature", "--check", "exit 1").rc == 1
    queue = page(f"/s/{id}/changes").get_by_role("region", name="Landing queue")
    queue.wait_for()
    words = queue.inner_text()
    assert "feature" in words and "sent back" in words and "the check failed (exit code 1)" in words
