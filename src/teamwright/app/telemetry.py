"""Telemetry of a session or a teammate's process: whether it is wanted, and what it watches."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.app.options import Options
from teamwright.app.workspace import Workspace
from teamwright.core.data.event import Warned
from teamwright.core.ids import AgentId
from teamwright.core.policies.redaction import secrets_of
from teamwright.models.prices import cost
from teamwright.store.settings.schema import Settings
from teamwright.store.tables.mail import count_unread
from teamwright.store.tables.state import now_ms
from teamwright.telemetry.facts.ids import read_traceparent
from teamwright.telemetry.settings import CALLER, TelemetryOptions, is_ours, read_wanted

if TYPE_CHECKING:
    from teamwright.app.services import Services
    from teamwright.telemetry.live import Telemetry
    from teamwright.telemetry.signals.figures import SessionFigures
    from teamwright.telemetry.signals.shapes import Measure

MISSING = "telemetry is switched on, but its packages are not installed: `pip install 'teamwright[otel]'`"
_PERSON = ("user", "flag", "managed")


def telemetry_env(env: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Telemetry variables as the process and the person set them. A project's do not count."""
    found = {name: value for name, value in env.items() if is_ours(name)}
    for layer in settings.layers:
        if layer.source in _PERSON:
            found |= {name: value for name, value in layer.values.get("env", {}).items() if is_ours(name)}
    return found


def read_telemetry(options: Options, workspace: Workspace) -> tuple[TelemetryOptions | None, list[str]]:
    """The telemetry that is wanted, if any, and what the person should know about it."""
    settings = workspace.settings
    wanted = read_wanted(telemetry_env(options.env, settings), secrets_of(options.env))
    notes = [
        f"{file} sets {names}: a project's variables for telemetry are ignored" for file, names in _theirs(settings)
    ]
    if wanted is None:
        return None, notes
    notes += wanted.problems
    if not _installed():
        return None, [*notes, MISSING]
    return wanted, notes


def _theirs(settings: Settings) -> list[tuple[str, str]]:
    """Files of a project that try to have a say, and the variables that they set."""
    found = [
        (layer.file, ", ".join(sorted(name for name in layer.values.get("env", {}) if is_ours(name))))
        for layer in settings.layers
        if layer.source not in _PERSON
    ]
    return [(file, names) for file, names in found if names]


def _installed() -> bool:
    try:
        return find_spec("opentelemetry.sdk") is not None
    except ImportError:
        return False


def caller_trace(options: Options) -> str:
    """The trace of the program that started this one, for prompts without one of their own."""
    said = options.env.get(CALLER[0], "")
    return said if read_traceparent(said) is not None else ""


def open_telemetry(services: "Services", wanted: TelemetryOptions) -> "Telemetry":
    from teamwright.telemetry.live import Telemetry, WatchedProcess  # noqa: PLC0415  # nothing of it where it is off

    def warn(words: str) -> None:
        services.log(words)
        services.tell(services.main, Warned(words))

    def gauges(figures: "SessionFigures") -> Sequence["Measure"]:
        return _gauges(services, telemetry, figures)

    ground = WatchedProcess(
        session=services.store.session,
        wanted=wanted,
        env=services.options.env,
        reread=services.reread,
        price=cost,
        now=now_ms,
        warn=warn,
        gauges=gauges,
        address=getattr(services.models.routed, "address", None),
    )
    telemetry = Telemetry(ground)
    services.bus.tap(telemetry.hear)
    return telemetry


def _gauges(services: "Services", telemetry: "Telemetry", figures: "SessionFigures") -> list["Measure"]:
    """Read in the sending thread, each time that it sends."""
    from teamwright.telemetry.signals import names  # noqa: PLC0415

    found = [figures.gauge(names.RUNNING, telemetry.running)]
    found.append(figures.gauge(names.WAITING, len(services.questions.waiting)))
    if services.open_teams is not None:
        workspace = services.workspace
        unread = count_unread(workspace.home.state)
        found += [figures.gauge(names.UNREAD, many, team=team) for team, many in unread.items()]
    return found


def begin(services: "Services", *, new: bool) -> None:
    """A session is open. If it was resumed, everything that its earlier process had open has ended."""
    telemetry, origin = services.telemetry, services.options.origin
    if telemetry is None:
        return
    telemetry.began("fresh" if new else "continue" if origin.last else "resume")
    if not new and not origin.fork:
        folder = services.store.files.dir / "agents"
        others = sorted(folder.glob("*.jsonl"), key=_age) if folder.is_dir() else []
        telemetry.take_over([services.main, *(AgentId(path.stem) for path in others)])


def _age(path: Path) -> int:
    return path.stat().st_ctime_ns
