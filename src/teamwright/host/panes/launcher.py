"""Starts a pane's program: reads its launch file and execs the program described there.

Imports none of our modules and hardly anything else, because it precedes every start. Its pid becomes the program's.
"""

import os
import sys

# The terminal's own values are more accurate than those of the starter.
_TERMINAL = ("TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORTERM", "TMUX", "TMUX_PANE", "ITERM_SESSION_ID")


def main(directory: str) -> int:  # noqa: RET503  # it does not return from the last line
    try:
        with open(f"{directory}/parcel", "rb") as file:  # noqa: PTH123  # pathlib is slow to import
            cwd, count, *fields = file.read().split(b"\0")
        os.unlink(f"{directory}/parcel")  # noqa: PTH108  # it holds keys
    except FileNotFoundError:
        return 1  # the parent has given up meanwhile
    argv, pairs = fields[: int(count)], fields[int(count) :]
    env = dict(pair.split(b"=", 1) for pair in pairs)
    env.update({name.encode(): os.environb[name.encode()] for name in _TERMINAL if name in os.environ})
    try:
        os.chdir(cwd)
    except OSError as error:
        _tell(directory, f"error {os.fsdecode(cwd)}: {error.strerror}")
        return 1
    _tell(directory, f"{os.getpid()} {os.environ.get('ITERM_SESSION_ID', '-')}")
    os.execvpe(argv[0], argv, env)  # noqa: S606  # by argv, without a shell


def _tell(directory: str, words: str) -> None:
    """Writes atomically, so that a reader never sees half of it."""
    draft = f"{directory}/draft"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(handle, words.encode(errors="surrogateescape"))
    os.close(handle)
    os.rename(draft, f"{directory}/receipt")  # noqa: PTH104


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
