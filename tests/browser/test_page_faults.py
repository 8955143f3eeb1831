"""What the page does about conversations that cannot be read, and connections that do not hold."""

import contextlib
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from browser_kit import OpenPage
from program import LIMIT, Program
from web_kit import WebHub
from wire_kit import Wire


class Fragile(Wire):
    """Every socket that was welcomed breaks at once."""

    def _carry(self, one: socket.socket, other: socket.socket, dead: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
                if b'"type":"welcome"' in data:
                    break
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.mark.spec("N8")
def test_a_damaged_conversation_says_what_is_wrong(program: Program, page: OpenPage) -> None:
    id = program.prompt(["one"]).result["session_id"]
    (transcript,) = Path(program.state / "projects").glob(f"*/{id}.jsonl")
    lines = transcript.read_bytes().split(b"\n")
    transcript.write_bytes(b"\n".join([*lines[:2], b"{garbage", *lines[3:]]))
    tab = page(f"/s/{id}/a/{id}")
    tab.get_by_text("The conversation cannot be read.").wait_for()
    tab.get_by_text("its files cannot be read or written now").first.wait_for()
    tab.get_by_label("Connected").wait_for()


@pytest.mark.spec("N23")
def test_a_connection_that_breaks_again_and_again_comes_back_ever_later(program: Program, chromium: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    opened: list[float] = []
    with Fragile(port) as wire:
        hub = WebHub(program, "--allow-host", f"127.0.0.1:{wire.port}", port=port)
        context = chromium.new_context()
        try:
            tab = context.new_page()
            tab.on("websocket", lambda _: opened.append(time.monotonic()))
            tab.goto(f"http://127.0.0.1:{wire.port}/#t={hub.info['token']}")
            end = time.monotonic() + LIMIT
            while len(opened) < 6:
                assert time.monotonic() < end, opened
                tab.wait_for_timeout(50)
        finally:
            context.close()
            hub.close()
    assert opened[5] - opened[4] > 1.2  # the first one comes after a quarter of a second
