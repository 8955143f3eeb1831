"""What a page must not do: show stale items, take a second click for another yes, flicker, lose words or focus."""

import json
import time
from typing import Any

import pytest

from browser_kit import OpenPage, asking
from program import LIMIT, Program, bash, tool
from web_kit import WebHub

POSTS = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/questions/')).length"
SEEN = "new Promise((done) => setTimeout(done, 700))"  # a new question ignores input until then


def until(tab: Any, seen: str) -> None:
    """Poll from here: the page's policy forbids evaluating text in it, as the driver's own wait would."""
    end = time.monotonic() + LIMIT
    while not tab.evaluate(seen):
        assert time.monotonic() < end, seen
        tab.wait_for_timeout(20)


@pytest.mark.spec("N23")
def test_what_went_while_the_hub_was_away_is_gone(program: Program, web: WebHub, page: OpenPage) -> None:
    run = asking(program, "touch asked")
    tab = page()
    card = tab.get_by_role("article", name="main wants to use Bash")
    card.wait_for()
    web.close(kill=True)
    tab.get_by_text("Reconnecting").wait_for()
    run.process.kill()
    run.process.wait(LIMIT)
    again = WebHub(program, port=web.port)
    try:
        tab.get_by_text("Nothing is running.").wait_for()
        assert card.count() == 0 and not tab.title().startswith("(")
    finally:
        again.close()


@pytest.mark.spec("N12")
def test_a_second_click_is_no_answer_to_the_next_question(program: Program, web: WebHub, page: OpenPage) -> None:
    for name in ("one", "two", "three"):
        asking(program, f"touch {name}")
        web.until("/api/now", lambda now, name=name: any(name in q["title"] for q in now["questions"]))
    tab = page()
    cards = tab.get_by_role("article", name="main wants to use Bash")
    cards.nth(2).wait_for()
    assert cards.locator("kbd").count() == cards.first.locator("kbd").count() == 5  # the element that has the keyboard
    tab.evaluate(SEEN)
    cards.first.get_by_role("button", name="Allow once").dblclick()
    until(tab, f"{POSTS} === 1")
    web.until("/api/now", lambda now: len(now["questions"]) == 2)
    until(tab, "document.querySelectorAll('article[data-question]').length === 2")
    assert tab.evaluate(POSTS) == 1
    tab.evaluate(SEEN)
    tab.mouse.move(2, 2)
    tab.keyboard.press("n")
    tab.keyboard.press("n")
    web.until("/api/now", lambda now: len(now["questions"]) == 1)
    until(tab, "document.querySelectorAll('article[data-question]').length === 1")
    assert tab.evaluate(POSTS) == 2 and [(program.project / n).exists() for n in ("two", "three")] == [False, False]


@pytest.mark.spec("N12")
def test_an_answer_is_given_once_also_where_its_news_are_late(program: Program, web: WebHub, page: OpenPage) -> None:
    """The session has the answer; the socket holds up the news that the question is gone."""
    late, held = [False], list[tuple[Any, Any]]()

    def between(socket: Any) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda said: held.append((socket, said)) if late[0] else socket.send(said))

    asking(program, "touch one")
    web.until("/api/now", lambda now: now["questions"])
    tab = page()
    tab.route_web_socket("**", between)
    tab.reload()
    tab.get_by_role("article", name="main wants to use Bash").wait_for()
    tab.evaluate(SEEN)
    late[0] = True
    with tab.expect_response(lambda response: "/questions/" in response.url):
        tab.keyboard.press("n")
    web.until("/api/now", lambda now: not now["questions"])
    for key in ("n", "y"):
        tab.keyboard.press(key)
    assert tab.get_by_role("button", name="Allow once").is_disabled() and tab.evaluate(POSTS) == 1
    late[0] = False
    for socket, said in held:
        socket.send(said)
    until(tab, "document.querySelectorAll('article[data-question]').length === 0")
    assert tab.evaluate(POSTS) == 1 and not (program.project / "one").exists()


@pytest.mark.spec("N29", "N12")
def test_the_words_of_an_agents_question_are_written_out_and_its_answer_is_as_it_was(
    program: Program, web: WebHub, page: OpenPage
) -> None:
    options = [{"label": "left\u202e", "description": "a"}, {"label": "right", "description": "b"}]
    part = {"question": "Which \u202eway?", "header": "Way", "multiSelect": False, "options": options}
    run = program.start("-p", "go", "--listen", "--output-format", "stream-json", "--verbose",
                        script=[tool("AskUserQuestion", questions=[part]), "done"])  # fmt: skip
    tab = page()
    card = tab.get_by_role("article")
    card.get_by_label("left").wait_for()
    words = card.inner_text()
    assert "Which \\u202eway?" in words and "left\\u202e" in words and "\u202e" not in words
    tab.evaluate(SEEN)
    card.get_by_label("left").check()
    card.get_by_role("button", name="Send").click()
    web.until("/api/now", lambda now: not now["sessions"])
    assert "left" in run.end().tool_results[-1][0]


@pytest.mark.spec("N21")
def test_a_slider_that_is_dragged_neither_blanks_the_page_nor_floods_the_hub(program: Program, page: OpenPage) -> None:
    id = program.prompt([[f"round {n}", bash("sleep 0.1")] for n in range(6)] + ["the end"]).result["session_id"]
    tab = page(f"/s/{id}/a/{id}")
    tab.get_by_text("the end", exact=True).wait_for()
    tab.get_by_role("button", name="Replay this session").click()
    tab.get_by_role("slider", name="Time").wait_for()
    tab.get_by_text("round 5", exact=True).wait_for()
    blank, asked = tab.evaluate("""async () => {
      const slider = document.querySelector("input[type=range]"), from = Number(slider.min), end = Number(slider.max);
      const told = () => performance.getEntriesByType("resource");
      const many = () => told().filter((one) => /until=|at\\?ms=/.test(one.name)).length;
      const before = many();
      let blank = 0;
      for (let n = 100; n >= 0; n--) {
        slider.value = String(Math.round(from + ((end - from) * Math.max(n, 30)) / 100));
        slider.dispatchEvent(new Event("input"));
        await new Promise(requestAnimationFrame);
        if (!document.querySelector(".conversation li.item")) blank++;
      }
      return [blank, many() - before];
    }""")
    assert blank == 0 and asked < 40
    tab.get_by_text("round 5", exact=True).wait_for(state="detached")
    assert tab.get_by_text("round 0", exact=True).count() == 1


@pytest.mark.spec("N14")
def test_an_agent_that_is_waited_for_goes_to_the_background(program: Program, web: WebHub, page: OpenPage) -> None:
    child = tool("Agent", description="look at everything", prompt="SCRIPT:child")
    script = {
        "main": [child, "I go on meanwhile.", "all done"],
        "child": [bash("while [ ! -e go ]; do sleep 0.1; done"), "looked"],
    }
    program.start("-p", "SCRIPT:main", "--listen", "--dangerously-skip-permissions", script=script)
    id = web.session()
    found = web.until(f"/api/sessions/{id}", lambda s: len(s["agents"]) == 2 and s["agents"][0]["state"] == "waiting")
    tab = page(f"/s/{id}/team")
    tab.get_by_text("waits for look at everything").wait_for()
    tab.get_by_role("button", name="To background: look at everything").click()
    tab.goto(f"http://127.0.0.1:{web.port}/s/{id}/a/{id}")
    tab.get_by_text("I go on meanwhile.", exact=True).wait_for()
    other = web.get(f"/api/sessions/{id}").json["agents"][1]
    assert other["id"] == found["agents"][1]["id"] and not other["ended"]
    tab.goto(f"http://127.0.0.1:{web.port}/s/{id}/a/{other['id']}")
    tab.get_by_role("button", name="Stop look at everything").wait_for()
    assert tab.get_by_role("button", name="To background: look at everything").count() == 0
    (program.project / "go").touch()
    tab.get_by_text("looked", exact=True).wait_for()


@pytest.mark.spec("N28", "N18")
def test_the_graph_and_the_list_of_keys_need_no_mouse(program: Program, page: OpenPage) -> None:
    tasks = [tool("TaskCreate", subject="grammar", description="x"),
             tool("TaskCreate", subject="parser", description="x", blockedBy=["1"])]  # fmt: skip
    id = program.prompt([tasks, "done"]).result["session_id"]
    tab = page(f"/s/{id}/tasks")
    tab.get_by_role("button", name="graph").click()
    node = tab.get_by_role("button", name="#2 parser, Blocked")
    tab.get_by_role("button", name="#1 grammar, Ready").focus()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    until(tab, "document.querySelectorAll('.edge.is-lit').length === 1")
    assert node.get_attribute("aria-pressed") == "true"
    tab.keyboard.press("?")
    tab.get_by_role("dialog", name="Keys").wait_for()
    for _ in range(5):
        tab.keyboard.press("Tab")
        assert not tab.evaluate("document.activeElement.closest('main, nav')")
    tab.keyboard.press("Escape")
    until(tab, "document.activeElement.matches('.node')")


@pytest.mark.spec("N27")
@pytest.mark.parametrize("width", [360, 800, 2560])
def test_long_names_stay_inside(program: Program, web: WebHub, page: OpenPage, width: int) -> None:
    name = "a-teammate-whose-name-is-very-long-indeed"
    mate = tool("Agent", name=name, team_name="crew", description="x" * 90, prompt="SCRIPT:mate")
    note = tool("SendMessage", to="team-lead", summary="s" * 90, message="w" * 400)
    script = {"main": [tool("TeamCreate", team_name="crew"), mate, "all set", *["noted"] * 5],
              "mate": [note, bash("touch " + "z" * 300), "done"]}  # fmt: skip
    program.start("-p", "t" * 300, "--listen", "--permission-mode", "default", script=script)
    id = web.question()["session"]
    tab = page("/", width, 800)
    tab.get_by_role("article").first.wait_for()
    for path in ("", "waiting", f"s/{id}/team", f"s/{id}/mail", f"s/{id}/tasks", f"s/{id}/a/{id}", f"s/{id}/cost"):
        tab.goto(f"http://127.0.0.1:{web.port}/{path}")
        tab.get_by_role("navigation").wait_for()
        tab.get_by_text(name[:12]).or_(tab.get_by_role("region").first).first.wait_for()
        wide = tab.evaluate("""() => [...document.querySelectorAll("button, select, input, textarea, article, .line")]
          .filter((one) => one.offsetParent && !one.closest(".tabs"))
          .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
          .map((one) => one.className + one.textContent.slice(0, 30))""")
        assert wide == [] and tab.evaluate("document.documentElement.scrollWidth") <= width, path


@pytest.mark.spec("N26", "N13")
def test_a_session_is_started_with_keys_alone(program: Program, web: WebHub, page: OpenPage) -> None:
    file = program.root / "typed.json"
    file.write_text(json.dumps([bash("touch typed"), "It is made."]))
    tab = page()
    tab.get_by_role("main").get_by_role("link", name="New session").press("Enter")
    until(tab, "document.activeElement.matches('textarea')")
    tab.keyboard.type("Make it, quickly")
    for word in ("", f"script/{file}"):
        tab.keyboard.press("Tab")
        tab.keyboard.type(word)
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Control+Enter")
    tab.get_by_role("article", name="main wants to use Bash").wait_for()
    tab.evaluate(SEEN)
    tab.keyboard.press("y")
    tab.get_by_text("It is made.", exact=True).wait_for()
    assert (program.project / "typed").exists() and tab.get_by_text("Make it, quickly").count()
    web.until("/api/now", lambda now: not now["sessions"])
    tab.get_by_text("It has ended.").wait_for()
    assert tab.get_by_role("navigation").get_by_label("ended").count() == 2  # nobody is idle if nothing runs
