"""Twenty agents write for ten minutes while a page watches: nothing in the hub or the tab may grow without end.

`python tests/teeth/web_load.py [MINUTES]`; part of `make long`. Needs Chromium and Playwright.
"""

import json
import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from program import LIMIT, Live, Program
from web_kit import WebHub

MOST_HUB, MOST_TAB, MOST_FRAME = 120.0, 100.0, 50.0  # MB, MB, ms at the 95th percentile
AGENTS, REPLIES = 20, 40
WORDS = " ".join(f"word{n}" for n in range(2_000))

FRAMES = """async () => {
  const gaps = [];
  let last = performance.now();
  const end = last + 4000;
  await new Promise((done) => {
    const step = (now) => {
      gaps.push(now - last);
      last = now;
      now < end ? requestAnimationFrame(step) : done();
    };
    requestAnimationFrame(step);
  });
  gaps.sort((a, b) => a - b);
  return [gaps[Math.floor(gaps.length * 0.95)], performance.memory.usedJSHeapSize / 1e6];
}"""


def write(program: Program) -> Live:
    args = {"prompt": "SCRIPT:writer", "run_in_background": True}
    agents = [{"tool": "Agent", "input": args | {"description": f"writer {n}"}} for n in range(AGENTS)]
    pause = {"tool": "Bash", "input": {"command": "true"}}
    script = {"main": [agents, "they write"], "writer": [*[[WORDS, pause]] * REPLIES, "done"]}
    return program.start("-p", "go", "--listen", "--permission-mode", "bypassPermissions", script=script)


def memory(pid: int) -> float:
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def watch(page: Any, program: Program, hub: WebHub, minutes: float) -> list[tuple[float, float, float]]:
    """Frames, heap of the tab and memory of the hub, every few seconds."""
    seen: list[tuple[float, float, float]] = []
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end:
        run = write(program)
        now = hub.until("/api/now", lambda now: now["sessions"] and len(now["sessions"][0]["agents"]) > AGENTS // 2)
        session = now["sessions"][0]
        page.goto(f"http://127.0.0.1:{hub.port}/s/{session['id']}/a/{session['agents'][1]['id']}")
        while run.process.poll() is None and time.monotonic() < end:
            frame, heap = page.evaluate(FRAMES)
            seen.append((frame, heap, memory(hub.process.pid)))
        run.process.terminate()
        run.process.wait(LIMIT)
    return seen


def main() -> None:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("web_load: chromium is missing, skipped")
        return
    from playwright.sync_api import sync_playwright

    with TemporaryDirectory() as root, sync_playwright() as play:
        program = Program(Path(root))
        hub = WebHub(program).enter()
        args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-precise-memory-info"]
        browser = play.chromium.launch(executable_path=chromium, args=args)
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{hub.port}/#t={hub.link()['token']}")
        try:
            seen = watch(page, program, hub, minutes)
        finally:
            browser.close()
            hub.close()
            program.close()
    frames = sorted(frame for frame, _, _ in seen)
    figures = {
        "samples": len(seen),
        "frame_ms": frames[len(frames) // 2],
        "tab_mb": max(heap for _, heap, _ in seen),
        "hub_mb": max(size for _, _, size in seen),
    }
    print(json.dumps(figures))
    assert figures["frame_ms"] <= MOST_FRAME and figures["tab_mb"] <= MOST_TAB and figures["hub_mb"] <= MOST_HUB


if __name__ == "__main__":
    main()
