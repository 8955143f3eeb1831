"""Measures the hub and its page: `python bench/web.py`. Without a browser, the parts that need one are left out.

Real programs make a session of 10,000 steps and one with 20 agents that write at once; a script plays the model.
"""

import gzip
import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rows import Row, ms, table

PROGRAM = [sys.executable, "-m", "teamwright"]
ROUNDS = 5
STEPS, EACH = 20, 499
LOAD = 20.0  # seconds
DEAF = 700  # milliseconds: a card ignores input when it has just appeared
PAINTED = """async () => {
  const found = () => performance.getEntriesByName("first-contentful-paint")[0];
  while (!found()) await new Promise(requestAnimationFrame);
  return found().startTime;
}"""
CARD = """async (words) => {
  const there = () => [...document.querySelectorAll("article")].some((one) => one.textContent.includes(words));
  while (!there()) await new Promise(requestAnimationFrame);
  return Date.now();
}"""
WATCH = """async (seconds) => {
  const gaps = []; let last = performance.now(), end = last + seconds * 1000, task = 0;
  const tasks = new PerformanceObserver((list) => {
    for (const one of list.getEntries()) task = Math.max(task, one.duration);
  });
  tasks.observe({ type: "longtask" });
  await new Promise((done) => {
    const step = (now) => {
      gaps.push(now - last);
      last = now;
      now < end ? requestAnimationFrame(step) : done();
    };
    requestAnimationFrame(step);
  });
  gaps.sort((a, b) => a - b);
  const heap = performance.memory ? performance.memory.usedJSHeapSize / 1e6 : 0;
  return [gaps[Math.floor(gaps.length * 0.95)], gaps[gaps.length - 1], heap, task];
}"""
POSTED = """async (many) => {
  const sent = () => performance.getEntriesByType("resource").filter((one) => one.name.includes("/questions/"));
  while (sent().length < many) await new Promise(requestAnimationFrame);
  return sent().at(-1).duration;
}"""


class Place:
    """A home, a project and a hub."""

    def __init__(self, root: Path) -> None:
        self.root, self.project = root, root / "project"
        self.project.mkdir()
        keep = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        self.env = keep | {"HOME": str(root), "TEAMWRIGHT_HOME": str(root / ".teamwright"), "LANG": "C.UTF-8"}
        self.key = ""

    def run(self, *args: str) -> str:
        done = subprocess.run([*PROGRAM, *args], cwd=self.project, env=self.env, capture_output=True, check=True)
        return done.stdout.decode()

    def model(self, script: Any, name: str) -> list[str]:
        file = self.root / f"{name}.json"
        file.write_text(json.dumps(script))
        return ["--model", f"script/{file}"]

    def start(self, *args: str) -> tuple[subprocess.Popen[bytes], dict[str, Any], float]:
        """Start the hub; return its link, and the seconds until it was printed."""
        began = time.perf_counter()
        argv = [*PROGRAM, "web", "--port", "0", "--no-open", "--json", *args]
        quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        hub = subprocess.Popen(argv, cwd=self.project, env=self.env, stdout=subprocess.PIPE, **quiet)
        assert hub.stdout
        link = json.loads(hub.stdout.readline())
        return hub, link, time.perf_counter() - began

    def ask(self, port: int, path: str, body: Any = None) -> tuple[Any, float]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        began = time.perf_counter()
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        connection.request("GET" if body is None else "POST", path, body and json.dumps(body), headers)
        told = json.loads(connection.getresponse().read())
        connection.close()
        return told, time.perf_counter() - began


def sizes() -> list[Row]:
    folder = files("teamwright.surfaces.web") / "static"
    data = [entry.read_bytes() for entry in folder.iterdir()]
    packed = [sum(len(gzip.compress(part, 9)) for part in data) / 1024]
    return [
        Row("files of the page", [sum(map(len, data)) / 1024], unit="KB", most=220),
        Row("files of the page, compressed", packed, unit="KB", most=70),
        Row("requests for them", [float(len(data))], unit="", most=12),
    ]


def starts(place: Place) -> list[Row]:
    seconds: list[float] = []
    for _ in range(ROUNDS):
        hub, _, took = place.start()
        hub.terminate()
        hub.wait()
        seconds.append(took)
    return [Row("start of the command to the link", ms(seconds), unit="ms", most=400)]


def long_talk(place: Place) -> tuple[str, Path]:
    read = {"tool": "Read", "input": {"file_path": "/etc/hostname"}}
    script = [[f"round {n}", *[read] * EACH] for n in range(STEPS)]
    out = place.run("-p", "go", "--output-format", "json", *place.model([*script, "the end"], "long"))
    return json.loads(out)["session_id"], place.root


def pages(place: Place, port: int, id: str) -> list[Row]:
    items = f"/api/sessions/{id}/agents/{id}/items"
    page, opened = place.ask(port, items)
    further, seeks = list[float](), list[float]()
    for _ in range(ROUNDS):
        page, took = place.ask(port, f"{items}?limit=200&before={page['items'][0]['id']}")
        further.append(took)
    moments, _ = place.ask(port, f"/api/sessions/{id}/moments")
    for n in range(ROUNDS):
        at = moments["from"] + (moments["to"] - moments["from"]) * n // ROUNDS
        seeks.append(place.ask(port, f"/api/sessions/{id}/at?ms={at}")[1])
    return [
        Row("10,000 items: the last page, for the first time", ms([opened]), unit="ms", most=1_000),
        Row("10,000 items: a page further up", ms(further), unit="ms", most=150),
        Row("10,000 records: a moment of the replay", ms(seeks), unit="ms", most=200),
    ]


def paints(browser: Any, port: int, path: str) -> list[float]:
    """Measure each paint in a fresh context, so that nothing is cached."""
    found = list[float]()
    for _ in range(ROUNDS):
        context = browser.new_context(viewport={"width": 1360, "height": 840})
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}{path}")
        found.append(page.evaluate(PAINTED))
        context.close()
    return found


def answers(place: Place, port: int, page: Any) -> list[Row]:
    """Time from a question to its card, and from the click to the stored answer."""
    script = [{"tool": "Bash", "input": {"command": f"touch asked-{n}"}} for n in range(ROUNDS)]
    argv = [*PROGRAM, "-p", "go", "--listen", *place.model([*script, "done"], "ask")]
    page.goto(f"http://127.0.0.1:{port}/")
    session = subprocess.Popen(argv, cwd=place.project, env=place.env, stdout=subprocess.DEVNULL)
    cards, clicks = list[float](), list[float]()
    try:
        for n in range(ROUNDS):
            seen = page.evaluate(CARD, f"touch asked-{n}")
            (question,) = place.ask(port, "/api/now")[0]["questions"]
            cards.append(seen - question["asked"])
            page.wait_for_timeout(DEAF)
            page.get_by_role("button", name="Allow once").click()
            clicks.append(page.evaluate(POSTED, n + 1))
    finally:
        session.terminate()
        session.wait()
    return [
        Row("a question to its card in the page", cards, unit="ms", most=150),
        Row("a click to the stored answer", clicks, unit="ms", most=50),
    ]


def busy(pid: int) -> float:
    """Processor seconds so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def in_browser(place: Place, port: int, token: str, id: str, hub: int) -> list[Row]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415  # not everywhere
    except ImportError:
        chromium = None
    if chromium is None:
        print("web: no browser here, its rows are left out", file=sys.stderr)
        return []
    with sync_playwright() as play:
        args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = play.chromium.launch(executable_path=chromium, args=args)
        page = browser.new_page(viewport={"width": 1360, "height": 840})
        page.goto(f"http://127.0.0.1:{port}/#t={token}")
        page.get_by_role("navigation").wait_for()
        paint, floor = paints(browser, port, "/"), paints(browser, port, "/nothing")
        began = time.perf_counter()
        page.goto(f"http://127.0.0.1:{port}/s/{id}/a/{id}")
        page.get_by_text("the end", exact=True).wait_for()
        opened = time.perf_counter() - began
        elements = page.evaluate("document.querySelectorAll('*').length")
        rows = [
            Row("first paint, in a browser that runs", paint, unit="ms", most=300),
            Row("the same of a sentence of the hub, for comparison", floor, unit="ms"),
            Row("10,000 items opened in the browser", ms([opened]), unit="ms", most=1_000),
            Row("elements of that page", [float(elements)], unit="", most=1_500),
            *answers(place, port, page),
            *loaded(place, port, page, hub),
        ]
        browser.close()
        return rows


def loaded(place: Place, port: int, page: Any, hub: int) -> list[Row]:
    """Twenty agents write at once, and the page shows one of them."""
    words = " ".join(f"word{n}" for n in range(6_000))
    agents = [
        {"tool": "Agent", "input": {"description": f"writer {n}", "prompt": "SCRIPT:writer", "run_in_background": True}}
        for n in range(20)
    ]
    script = {"main": [agents, "they write"], "writer": [words, words, words]}
    argv = [*PROGRAM, "-p", "go", "--listen", *place.model(script, "load")]
    session = subprocess.Popen(argv, cwd=place.project, env=place.env, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            found = place.ask(port, "/api/now")[0]["sessions"]
            if found and len(found[0]["agents"]) > 2:
                writer = found[0]["agents"][1]["id"]
                page.goto(f"http://127.0.0.1:{port}/s/{found[0]['id']}/a/{writer}")
                break
            time.sleep(0.05)
        received = [0]
        network = page.context.new_cdp_session(page)
        network.on("Network.webSocketFrameReceived", lambda told: count_bytes(received, told))
        network.send("Network.enable")
        page.reload()
        began, before = time.monotonic(), (busy(hub), busy(session.pid))
        p95, longest, heap, task = page.evaluate(WATCH, min(LOAD, 5.0))
        took, after = time.monotonic() - began, (busy(hub), busy(session.pid))
    finally:
        session.terminate()
        session.wait()
    return [
        Row("20 agents write: 95 % of frames", [p95], unit="ms", most=50),
        Row("20 agents write: the longest frame", [longest], unit="ms"),
        Row("20 agents write: the longest task", [task], unit="ms", most=100),
        Row("20 agents write: heap of the tab", [heap], unit="MB", most=100),
        Row("20 agents write: the socket", [received[0] / 1024 / took], unit="KB/s", most=100),
        Row("20 agents write: the hub, of a core", [100 * (after[0] - before[0]) / took], unit="%", most=25),
        Row("20 agents write: the session itself, of a core", [100 * (after[1] - before[1]) / took], unit="%"),
    ]


def count_bytes(received: list[int], told: Any) -> None:
    received[0] += len(told["response"]["payloadData"])


def main() -> None:
    rows = sizes()
    with TemporaryDirectory() as root:
        place = Place(Path(root))
        rows += starts(place)
        id, _ = long_talk(place)
        hub, link, _ = place.start()
        try:
            more = json.loads(place.run("web", "link", "--json"))
            place.key = place.ask(link["port"], "/api/login", {"token": link["token"]})[0]["key"]
            rows.append(
                Row(
                    "the link to Now, told for the first time",
                    ms([place.ask(link["port"], "/api/now")[1]]),
                    unit="ms",
                    most=800,
                )
            )
            rows += pages(place, link["port"], id)
            rows += in_browser(place, link["port"], more["token"], id, hub.pid)
            peak = next(line for line in Path(f"/proc/{hub.pid}/status").read_text().splitlines() if "VmHWM" in line)
            rows.append(Row("most memory of the hub", [int(peak.split()[1]) / 1024], unit="MB", most=120))
        finally:
            hub.terminate()
            hub.wait()
    print(table(rows))


if __name__ == "__main__":
    main()
