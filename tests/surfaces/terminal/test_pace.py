"""An idle app does next to nothing."""

import os
import pty
import threading
import tty
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from textual import events
from textual.app import App

from teamwright.surfaces.terminal.keyboard import WaitingDriver
from teamwright.surfaces.terminal.pace import FramePace

LIMIT = 30.0


async def until(found: Callable[[], bool]) -> None:
    with anyio.fail_after(LIMIT):
        while not found():
            await anyio.sleep(0.01)


@pytest.mark.anyio
async def test_a_screen_on_which_nothing_changes_comes_to_rest_and_a_wake_up_ends_that() -> None:
    drawn, changing = [0], [True]

    def draw() -> bool:
        drawn[0] += 1
        return changing[0]

    class Blank(App[None]):
        def on_mount(self) -> None:
            pace.start(self)

    pace = FramePace(draw, lambda: None, rest=0.1)
    async with Blank().run_test():
        await until(lambda: drawn[0] > 20)
        assert not pace.at_rest
        changing[0] = False
        await until(lambda: pace.at_rest)
        before = drawn[0]
        pace.wake()
        assert not pace.at_rest
        await until(lambda: drawn[0] > before + 2)  # sooner than the slow beat alone would show it
        changing[0] = True
        await until(lambda: drawn[0] > before + 20)


@pytest.mark.anyio
async def test_keys_are_heard_by_a_thread_that_sleeps_until_one_is_pressed() -> None:
    """A lone Esc too, without a key after it; and leaving wakes the thread."""
    master, slave = pty.openpty()
    heard: list[Any] = []

    class Deaf(App[None]):
        def post_message(self, message: Any) -> bool:
            if isinstance(message, events.Key):
                heard.append(message.key)
            return super().post_message(message)

    async with Deaf().run_test() as pilot:
        driver = WaitingDriver(pilot.app, size=(80, 24), mouse=False)
        driver.fileno = slave
        tty.setraw(slave)
        thread = threading.Thread(target=driver.run_input_thread, daemon=True)
        driver._key_thread = thread  # pyright: ignore[reportPrivateUsage] -- who is waited for
        thread.start()
        for text, key in ((b"a", "a"), (b"\x1b", "escape"), (b"\x1b[A", "up")):
            os.write(master, text)
            await until(lambda key=key: key in heard)
        with anyio.fail_after(LIMIT):
            driver.disable_input()
        assert not thread.is_alive()
    os.close(master)
    os.close(slave)
