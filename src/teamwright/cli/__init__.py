"""Command line: argv in, exit status out; imports are inside functions to keep `--version` quick."""

import os
import sys
from collections.abc import Sequence

TYPE_CHECKING = False  # checkers know this name; importing `typing` for it would double what `--version` costs
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = 2


def main(argv: Sequence[str] | None = None) -> "NoReturn":
    """The program's entry point."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_streams()
    args = list(sys.argv[1:] if argv is None else argv)
    if args in (["--version"], ["-v"], ["-V"]):
        from teamwright import __version__

        try:
            sys.stdout.write(f"{__version__} (Teamwright)\n")
            sys.stdout.flush()
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                _complain(_refused(error) or str(error))
            os._exit(1)  # a normal exit would write the rest again, and fail again
        sys.exit(0)
    if sys.platform == "win32":
        sys.exit("teamwright: native Windows is not supported; run it inside WSL (https://aka.ms/wsl)")
    from teamwright.host.process.secrecy import keep_secrets

    keep_secrets()
    status = _run(args)
    _leave(status)


def _open_streams() -> None:
    """Open /dev/null for standard streams that are closed (`>&-`): the next opened file would take their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


def _leave(status: int) -> "NoReturn":
    """Exit without interpreter shutdown: everything is closed, and tearing down the imports would cost as much as a
    turn."""
    if "teamwright.host.process.run" in sys.modules:
        from teamwright.host.process.run import stop_all

        stop_all()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (BrokenPipeError, ValueError):
            status = status or 1
        except OSError as error:  # a full disk
            status = status or 1
            if stream is sys.stdout:
                _complain(_refused(error) or str(error))
    os._exit(status)


def _run(args: list[str]) -> int:
    from teamwright.cli.commands import COMMANDS, run_command
    from teamwright.cli.prompts import run_prompt
    from teamwright.core.errors import TeamwrightError, UsageError, only_one
    from teamwright.tools.bounds import visible

    try:
        try:
            os.getcwd()  # noqa: PTH109 -- pathlib need not be imported for it
        except OSError as error:
            where = f"the working directory cannot be used ({error.strerror})"
            raise UsageError(f"{where}: change to another one") from None
        if args and args[0] in COMMANDS:
            return run_command(args[0], args[1:])
        if args == ["teammate"]:  # a lead starts it, never a person
            import anyio

            from teamwright.surfaces.teammate import run_teammate

            return anyio.run(run_teammate)
        return run_prompt(args)
    except BrokenPipeError:
        return 1
    except Exception as error:
        only = only_one(error)
        words = _refused(only) if isinstance(only, OSError) else str(only) if isinstance(only, TeamwrightError) else ""
        if not words:
            raise
        _complain(visible(_without_keys(words)))
        return USAGE if isinstance(only, UsageError) else 1
    except KeyboardInterrupt:
        return 130


def _refused(error: OSError) -> str:
    """Describe an error that the machine caused (permissions, full disk); empty for one that must be a bug of ours."""
    import errno

    names = ("EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "EIO", "ELOOP", "ENAMETOOLONG", "EMFILE", "ENFILE")
    if errno.errorcode.get(error.errno or 0) not in names:
        return ""
    if error.filename is None:
        many = error.errno in (errno.EMFILE, errno.ENFILE)
        return f"{'no file can be opened' if many else 'the output cannot be written'}: {error.strerror}"
    where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else f"file {error.filename}"
    return f"{where} cannot be used: {error.strerror}. Check the permissions of that path, and the disk."


def _without_keys(words: str) -> str:
    """An error may quote an address or an answer with a key in it."""
    from teamwright.core.policies.redaction import redacted, secrets_of

    return redacted(words, secrets_of(os.environ))


def _complain(words: str) -> None:
    """Print an error: wrapped at words for a person, unchanged for a program."""
    text = f"teamwright: {words}"
    if sys.stderr.isatty():
        import shutil
        import textwrap

        width = max(20, shutil.get_terminal_size().columns - 1)
        wrapped = (textwrap.wrap(line, width, break_long_words=False) for line in text.split("\n"))
        text = "\n".join("\n".join(lines) for lines in wrapped)
    sys.stderr.write(f"{text}\n")
