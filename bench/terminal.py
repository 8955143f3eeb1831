"""The terminal app: its start, how soon a key shows while twenty agents write, opening and scrolling a long past."""

import os
import pty
import select
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from rows import Row, ms
from session import Rig
from textual import events
from textual.pilot import Pilot

from teamwright.app import Options, open_session
from teamwright.core.data.event import AgentStarted, Replied, Streamed, TurnEnded, TurnStarted
from teamwright.core.data.event import LettersTaken as Taken
from teamwright.core.data.message import Message, ReplyStarted, Text, TextDelta, Usage, user
from teamwright.core.ids import new_agent_id
from teamwright.models.scripted import ScriptedModel
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.local_session import LocalSession
from teamwright.runtime.session import Session
from teamwright.store.files.paths import find_transcript, home_from
from teamwright.store.files.transcripts import Transcript
from teamwright.surfaces.terminal.app import TerminalApp

AGENTS, TOKENS, SECONDS = 20, 2_000, 5.0
MESSAGES = 10_000
STARTS, ROUNDS = 7, 3
KEYS, PAGES = 40, 60
SHOWN, SETTLED, WATCHED = 120.0, 15.0, 20.0  # seconds: the longest wait for rest, and then the time whose CPU counts
NEW = Origin()
# TEAMWRIGHT_SANDBOX: without it the first start offers the sandbox.
_TERMINAL = {"TERM": "xterm-256color", "LINES": "40", "COLUMNS": "100", "TEAMWRIGHT_SANDBOX": "off"}
EMPTY = """
from textual.app import App
from textual.widgets import Static
class Empty(App):
    def compose(self):
        yield Static("Ask, or type")
Empty().run()
"""


def measure(rig: Rig) -> list[Row]:
    ours, empty = [], []
    for _ in range(STARTS):
        empty.append(_start([sys.executable, "-c", EMPTY], rig))
        ours.append(_start([sys.executable, "-m", "teamwright"], rig))
    keys = ms([pause for _ in range(ROUNDS) for pause in anyio.run(_type_while_agents_write)])
    opened, pages, kept = zip(*(anyio.run(_open_long) for _ in range(ROUNDS)), strict=True)
    slow = f"{TOKENS:,} tokens/s of {AGENTS} agents"
    return [
        Row("app: start to the first prompt : an empty Textual app", ms(ours), ms(empty), most_ratio=2.5),
        Row(f"app: a key is shown, {slow} (p95 of {len(keys)})", [_p95(keys)], unit="ms", most=50),
        Row(f"app: a key is shown, {slow} (the slowest)", [max(keys)], unit="ms"),
        Row(f"app: {MESSAGES:,} messages are opened, with the session", ms(list(opened)), unit="ms", most=1000),
        Row("app: a page up in them (p95)", [_p95(ms(list(each))) for each in pages], unit="ms", most=50),
        Row("app: items of them in memory", list(kept), unit="items", most=2_000),
        Row("app: at rest, of a core", [_idle([], b"type", rig)], unit="%", most=0.3),
        Row("app: the demo at its question", [_idle(["demo"], b"waiting for your answer", rig)], unit="%", most=0.3),
    ]


def _p95(values: list[float]) -> float:
    return sorted(values)[round(0.95 * (len(values) - 1))]


def _start(argv: list[str], rig: Rig) -> float:
    """CPU seconds until the input is visible."""
    pid, terminal = _open(argv, rig)
    _await(b"type", terminal, 30.0)
    return _close(pid, terminal)


def _await(words: bytes, terminal: int, seconds: float) -> None:
    seen, end = b"", time.monotonic() + seconds
    while words not in seen and time.monotonic() < end:
        if select.select([terminal], [], [], 1.0)[0]:
            seen += os.read(terminal, 65536)


def _idle(words: list[str], shown: bytes, rig: Rig) -> float:
    """Per cent of a core that an idle app uses once this is on its screen."""
    pid, terminal = _open([sys.executable, "-m", "teamwright", *words], rig)
    _await(shown, terminal, SHOWN)
    _drain(terminal, SETTLED)
    before = _cpu(pid)
    _drain(terminal, WATCHED)
    return 100 * (_close(pid, terminal) - before) / WATCHED


def _open(argv: list[str], rig: Rig) -> tuple[int, int]:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(rig.env["HOME"])
        os.execve(argv[0], argv, dict(rig.env) | _TERMINAL)
    return pid, terminal


def _drain(terminal: int, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            os.read(terminal, 65536)


def _cpu(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def _close(pid: int, terminal: int) -> float:
    """Close the app; return its CPU seconds."""
    took = _cpu(pid)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(terminal)
    return took


def _options(root: str, origin: Origin = NEW) -> Options:
    env = {"HOME": root, "TEAMWRIGHT_HOME": f"{root}/.teamwright", "PATH": os.environ["PATH"]}
    return Options(cwd=Path(root), env=env, own_model=ScriptedModel(["done"]), can_ask=True, origin=origin)


async def _type_while_agents_write() -> list[float]:
    found: list[float] = []
    with TemporaryDirectory() as root:
        options = _options(root)
        session = await open_session(options)
        async with session:
            app = TerminalApp(LocalSession(session, home_from(options.env)), options)
            async with app.run_test(size=(120, 40)) as pilot, anyio.create_task_group() as group:
                group.start_soon(_write, session)
                await pilot.pause(0.5)
                for n in range(KEYS):
                    began, drawn = time.perf_counter(), anyio.Event()
                    app.prompt.post_message(events.Key("a", "a"))
                    app.prompt.call_after_refresh(drawn.set)  # on the screen, not only in the input
                    await drawn.wait()
                    found.append(time.perf_counter() - began)
                    assert len(app.prompt.text) == n + 1
                    await anyio.sleep(0.09 + 0.001 * n)  # at no fixed place in the rhythm of the frames
                group.cancel_scope.cancel()
            session.hurry()
    return found


async def _write(session: Session) -> None:
    """Let twenty agents write markdown, a hundred tokens a second each."""
    agents = [session.main.id, *(new_agent_id() for _ in range(AGENTS - 1))]
    for agent in agents:
        session.tell(agent, AgentStarted(session.id, "/", "1", name=f"agent-{agent[:4]}", parent=session.main.id))
        session.tell(agent, TurnStarted())
        session.tell(agent, Streamed(ReplyStarted("r", "m")))
    words = ["some ", "words ", "of ", "an ", "agent", ".\n\n", "- `code` ", "and ", "**more** ", "\n"]
    tick = 0.02
    for n in range(int(SECONDS / tick)):
        for place, agent in enumerate(agents):
            for token in range(int(TOKENS * tick / AGENTS)):
                session.tell(agent, Streamed(TextDelta(0, words[(n + place + token) % len(words)])))
        await anyio.sleep(tick)


async def _open_long() -> tuple[float, list[float], float]:
    """Seconds until its end is on the screen, seconds for each page up, and items in memory at the top."""
    with TemporaryDirectory() as root:
        options = _options(root)
        session = await open_session(options)
        async with session:
            await session.ask("hello")
            session.hurry()
        path = find_transcript(home_from(options.env), session.id)
        assert path is not None
        _fill(path)
        began = time.perf_counter()
        session = await open_session(_options(root, Origin(session.id)))
        async with session:
            app = TerminalApp(LocalSession(session, home_from(options.env)), options)
            async with app.run_test(size=(120, 40)) as pilot:
                while f"answer {MESSAGES // 2 - 1}" not in _screen(app):
                    await pilot.pause(0.01)
                took = time.perf_counter() - began
                pages = [await _page_up(app, pilot) for _ in range(PAGES)]
                kept = float(len(app.view.talk(app.view.main).items))
            session.hurry()
    return took, pages, kept


async def _page_up(app: TerminalApp, pilot: Pilot[Any]) -> float:
    """Page up, and wait until the screen shows other lines."""
    before, began, end = _screen(app), time.perf_counter(), time.perf_counter() + 5
    app.action_page(-1)
    while _screen(app) == before and time.perf_counter() < end:
        await pilot.pause(0.001)
    took = time.perf_counter() - began
    await pilot.pause(0.05)
    return took


def _screen(app: TerminalApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def _fill(path: Path) -> None:
    transcript, _, _ = Transcript.open(path)
    for n in range(MESSAGES // 2):
        answer = Message("assistant", (Text(f"Here is **answer {n}** with `code` in it.\n\n- one\n- two\n"),), "m")
        transcript.append(Taken((), user(f"question {n}")), n)
        transcript.append(Replied(answer, "end_turn", Usage(10, 10)), n)
        transcript.append(TurnEnded("done", "ok"), n)
    transcript.close()
