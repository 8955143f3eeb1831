"""The page in a real browser. Skipped if Chromium or Playwright is missing; no browser is ever downloaded."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from program import Live, Program, bash
from web_kit import WebHub

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# What a browser logs about a hub that is away or being killed, a void key, and refused requests.
AWAY = ("ERR_CONNECTION_", "ERR_EMPTY_RESPONSE", "WebSocket connection", "401 (", "403 (", "409 (")
EVIL = "evil.example"  # a name that resolves to this machine, as after DNS rebinding
OpenPage = Callable[..., Any]


def open_browser() -> Iterator[Any]:
    """One browser for all tests of a file."""
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with api.sync_playwright() as play:
        rules = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
        args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", rules]
        browser = play.chromium.launch(executable_path=CHROMIUM, args=args)
        yield browser
        browser.close()


def open_pages(chromium: Any, web: WebHub) -> Iterator[OpenPage]:
    """Pages that are logged in; complaints in the console fail the test."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def complain(message: Any) -> None:
        if message.type == "error" and not any(words in message.text for words in AWAY):
            wrong.append(message.text)

    def fail(error: Any) -> None:
        wrong.append(str(error))

    def open_page(path: str = "/", width: int = 1360, height: int = 840, token: str = "", **more: Any) -> Any:
        view = {"width": width, "height": height}
        contexts.append(chromium.new_context(viewport=view, reduced_motion="reduce", **more))
        tab = contexts[-1].new_page()
        tab.on("console", complain)
        tab.on("pageerror", fail)
        tab.set_default_timeout(20_000)
        tab.goto(f"http://127.0.0.1:{web.port}{path}#t={token or web.link()['token']}")
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def asking(program: Program, command: str, *more: Any) -> Live:
    return program.start("-p", "Make it", "--listen", script=[bash(command), *more, "all done"])
