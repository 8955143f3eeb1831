"""`teamwright doctor`: checks what works on this machine and says how to fix what does not."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
import msgspec
from msgspec.structs import replace

from teamwright import __version__
from teamwright.app import Options, Workspace, model_for, open_workspace
from teamwright.app.agents.registry import AgentRegistry
from teamwright.app.brought.unread import all_unread, unread_variables
from teamwright.app.extensions.service import read_configured
from teamwright.app.workspace import check_numbers, read_rules
from teamwright.core.data.message import Request, user
from teamwright.core.errors import StoreError, TeamwrightError, ToolError, UsageError
from teamwright.core.policies.redaction import redacted, secrets_of
from teamwright.host.files.paths import has_openat2
from teamwright.host.files.search import find_rg
from teamwright.store.tables.state import StateStore
from teamwright.tools.bounds import visible

PROBE_LIMIT = 30.0  # seconds for the model to answer one word
Verdict = Literal["ok", "note", "fault"]


class Check(msgspec.Struct, frozen=True):
    about: str
    verdict: Verdict
    words: str


def run_doctor(model: str | None, *, as_json: bool) -> int:
    """0 if nothing is wrong. Asks the model for one word, with no tools and no retries."""
    secrets = secrets_of(os.environ)
    findings = [replace(found, words=redacted(found.words, secrets)) for found in anyio.run(_examine, model)]
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(findings), indent=2).decode() + "\n")
    else:
        marks = {"ok": "ok   ", "note": "note ", "fault": "FAULT"}
        for found in findings:
            sys.stdout.write(f"{marks[found.verdict]}  {found.about:<12} {visible(found.words)}\n")
    return 1 if any(found.verdict == "fault" for found in findings) else 0


async def _examine(model: str | None) -> list[Check]:
    findings = [*_machine()]
    try:
        ground = open_workspace(Options(cwd=Path.cwd()))
    except TeamwrightError as error:
        return [*findings, Check("settings", "fault", str(error))]
    findings += _settings(ground)
    findings += await anyio.to_thread.run_sync(_sandbox, ground)
    findings += _brought(ground)
    findings.append(await _store(ground))
    findings += await anyio.to_thread.run_sync(_telemetry, ground)
    findings.append(await _model(ground, model))
    return findings


def _machine() -> Iterator[Check]:
    yield Check(
        "teamwright", "ok", f"{__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}"
    )
    if has_openat2():
        yield Check("files", "ok", "paths are opened by openat2, without following links")
    else:
        words = "this system has no openat2: paths are walked step by step instead, which is slower but as strict"
        yield Check("files", "note", words)
    for name, need in (("bash", "the Bash tool needs it"), ("git", "the demo and worktrees need it")):
        found = shutil.which(name)
        yield Check(name, "ok" if found else "fault", found or f"not found on PATH; {need}")
    try:
        yield Check("ripgrep", "ok", find_rg())
    except ToolError as error:
        yield Check("ripgrep", "fault", str(error))
    if sys.platform == "darwin":
        yield Check("macOS", "note", "a command that leaves its process group may outlive its call here")
    for name in ("HTTPS_PROXY", "https_proxy", "SSL_CERT_FILE"):
        if value := os.environ.get(name):
            yield Check("network", "note", f"{name} is set: {_without_password(value)}")


def _without_password(address: str) -> str:
    head, at, tail = address.rpartition("@")
    return f"{head.partition('//')[0]}//...@{tail}" if at else address


def _settings(ground: Workspace) -> Iterator[Check]:
    for note in ground.notes:
        yield Check("settings", "note", note)
    try:
        check_numbers(ground.env)
    except UsageError as error:
        yield Check("environment", "fault", str(error))
    if ground.trusted:
        yield Check("directory", "ok", f"{ground.project} is trusted")
    else:
        words = "is not trusted: its settings, hooks and servers are not used; `teamwright trust` trusts it"
        yield Check("directory", "note", f"{ground.project} {words}")


def _sandbox(ground: Workspace) -> list[Check]:
    """One line for each tier of this system; each is tried with a real box."""
    from teamwright.host.sandbox.tiers import find_tier  # noqa: PLC0415

    values = ground.settings.sandbox.values
    found = find_tier(ground.home.root, ground.env, (str(ground.project),), values.bwrap_path, every=True)
    in_use = f", {found.tier} is in use" if values.enabled and found.tier != "none" else ""
    lines = [
        Check("sandbox", "ok", one.words)
        if one.passed
        else Check("sandbox", "note", f"{one.tier}: {one.words}{in_use}")
        for one in found.tried
    ]
    if found.tier == "none" and values.enabled:
        return [*lines, Check("sandbox", "fault", f"enabled, but nothing here can hold it: {found.why}")]
    how = "on" if values.enabled else "off; --sandbox or `sandbox.enabled` in the settings turns it on"
    return [*lines, Check("sandbox", "ok", f"the sandbox is {how}")]


def _brought(ground: Workspace) -> Iterator[Check]:
    """Faults in agents, skills, hooks, servers and plugins; and everything that is not used."""
    options = Options(cwd=ground.cwd)
    try:
        rules, wrong = read_rules(options, ground)
        written = read_configured(options, ground)
        registry = AgentRegistry(options, ground, rules, written)
    except TeamwrightError as error:
        yield Check("brought", "fault", str(error))
        return
    for problem in (*wrong, *registry.problems, *written.problems):
        yield Check("brought", "note", problem)
    for one in all_unread(ground, written, registry):
        yield Check("not used", "note", one.text)
    for name in unread_variables(ground.env):
        yield Check("not used", "note", f"the variable {name} has no effect here")


async def _store(ground: Workspace) -> Check:
    root = ground.home.root
    try:
        state = await StateStore.open(ground.home.state)
        notes = list(state.notes)
        await state.close()
    except (StoreError, OSError) as error:
        return Check("store", "fault", f"{root} cannot be used: {error}")
    mode = root.stat().st_mode & 0o777
    if mode & 0o077:
        return Check("store", "fault", f"{root} can be read by others (mode {mode:o}): chmod 700 it")
    return Check("store", "note" if notes else "ok", "; ".join([str(root), *notes]))


def _telemetry(ground: Workspace) -> list[Check]:
    """If telemetry is on: whether each signal's collector answers."""
    from teamwright.app.telemetry import read_telemetry  # noqa: PLC0415

    wanted, notes = read_telemetry(Options(cwd=ground.cwd), ground)
    checks = [Check("telemetry", "note", note) for note in notes]
    if wanted is None:
        return checks
    from teamwright.telemetry.sending.probe import probe  # noqa: PLC0415

    return checks + [Check("telemetry", "ok" if good else "fault", words) for good, words in probe(wanted)]


async def _model(ground: Workspace, name: str | None) -> Check:
    """One short request: it shows a wrong key, no network, a proxy or a private CA."""
    words: list[str] = []
    try:
        models, full = model_for(ground, name)
        request = Request(full, ("Answer with one word.",), (), (user("Say ok."),), max_output=64)
        try:
            with anyio.fail_after(PROBE_LIMIT):
                await models.reply(request, lambda delta: words.append(type(delta).__name__))
        finally:
            await models.aclose()
    except TimeoutError:
        return Check("model", "fault", f"no complete answer within {PROBE_LIMIT:g} s")
    except TeamwrightError as error:
        return Check("model", "fault", str(error))
    return Check("model", "ok", f"{full} answers")
