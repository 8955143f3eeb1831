"""Runs a prompt: parses the session's options, then starts a headless session or the app."""

from teamwright.cli.commands import COMMANDS

TYPE_CHECKING = False  # as in the package itself
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Coroutine

    from teamwright.app import Options


def run_prompt(args: list[str]) -> int:
    import gc

    gc.disable()  # until the session is open: imported modules stay anyway
    from teamwright.surfaces.headless.arguments import headless_of, options_of
    from teamwright.surfaces.headless.flags import prompt_parser
    from teamwright.surfaces.usage import check_command

    if args and "-p" not in args and "--print" not in args:
        check_command(args[0], COMMANDS)
    found = prompt_parser(COMMANDS).parse_args(args)
    if found.version:
        from teamwright.cli import main

        main(["--version"])
    if not found.print and found.input_format != "stream-json":
        check_command(found.prompt or "", COMMANDS)
        return _run_app(found)
    from functools import partial

    from teamwright.surfaces.headless.run import run

    return _run(found, options_of(found), partial(run, headless_of(found)))


def _run(
    found: "argparse.Namespace", options: "Options", run: "Callable[[Options], Coroutine[None, None, int]]"
) -> int:
    import anyio

    if found.worktree is None:
        return anyio.run(run, options)
    from teamwright.app.session_tree import run_in_worktree

    return anyio.run(run_in_worktree, options, found.worktree, run)


def _run_app(found: "argparse.Namespace") -> int:
    from teamwright.surfaces.headless.arguments import options_of
    from teamwright.surfaces.terminal.run import check_terminal, run_terminal

    check_terminal()
    from teamwright.surfaces.headless.door import keep_door

    pick = found.resume == ""
    found.resume = found.resume or None

    async def show_app(options: "Options") -> int:
        return await run_terminal(options, keep_door, prompt=found.prompt, pick=pick)

    return _run(found, options_of(found), show_app)
