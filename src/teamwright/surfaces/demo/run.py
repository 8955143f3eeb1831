"""Sets up the demo, plays the story once, and says how it ended."""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from uuid import uuid4

import anyio

from teamwright.core.errors import UsageError
from teamwright.surfaces.demo.live import ShowApp, play_live
from teamwright.surfaces.demo.screen import Screen
from teamwright.surfaces.demo.shop import make_shop, tests_pass
from teamwright.surfaces.demo.stage import DemoPlan, Stage
from teamwright.surfaces.plain import is_terminal, wants_colours


def play(
    show_app: ShowApp, *, fast: bool, keep: bool, kill: bool = False, plain: bool = False, workers: int = 0
) -> int:
    """0 if everything is right at the end. In a terminal it is played in the app, unless it is `plain`."""
    if shutil.which("git") is None:
        raise UsageError("the demo needs git, and it is not installed")
    root = Path(tempfile.mkdtemp(prefix="teamwright-demo-"))
    colours = wants_colours(sys.stdout, dict(os.environ))
    plan = DemoPlan(str(root), str(uuid4()), fast=fast, colours=colours)
    screen = Screen(sys.stdout, colours=colours)
    try:
        make_shop(plan.shop)
        if workers:
            from teamwright.surfaces.demo.workers import play_with_workers  # noqa: PLC0415 -- rarely needed

            _introduce(screen, plan)
            return play_with_workers(root, plan.shop, screen, workers)
        if not plain and not kill and is_terminal():
            return _play_live(plan, screen, show_app)
        _introduce(screen, plan)
        if kill:
            from teamwright.surfaces.demo.kill import play_with_kill  # noqa: PLC0415 -- rarely needed

            return play_with_kill(plan, screen)
        return _play(plan, screen)
    finally:
        if keep:
            sys.stdout.write(f"\nThe repository, the transcripts and the database are in {root}\n")
        else:
            shutil.rmtree(root, ignore_errors=True)


def _play(plan: DemoPlan, screen: Screen) -> int:
    ended = False
    try:
        ended = anyio.run(Stage(plan, screen).play)
    except* BrokenPipeError:
        raise BrokenPipeError from None  # nobody reads on
    passed = tests_pass(plan.shop)
    screen.say()
    screen.say("The tests pass." if passed else "The tests still fail.", "green" if passed else "red")
    return 0 if ended and passed else 1


def _play_live(plan: DemoPlan, screen: Screen, show_app: ShowApp) -> int:
    ended = anyio.run(play_live, plan, show_app)
    if not ended:
        screen.say("You left before the story had ended. `teamwright demo --plain` prints all of it.")
        return 0
    passed = tests_pass(plan.shop)
    screen.say(
        "The team has fixed the shop: its tests pass." if passed else "The tests of the shop still fail.",
        "green" if passed else "red",
    )
    screen.say("In a repository of your own: teamwright. Beforehand, `teamwright doctor` looks for a model.")
    return 0 if passed else 1


def _introduce(screen: Screen, plan: DemoPlan) -> None:
    screen.say("Teamwright demo", "bold")
    screen.say("A script plays the model's part, so no key is needed. The rest is real: the team with its", "dim")
    screen.say("mail and tasks, the tools, the permission rules, the worktrees, and a git repository in", "dim")
    screen.say(str(plan.shop), "dim")
