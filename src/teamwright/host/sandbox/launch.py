"""A program that is to be started."""

import subprocess
from collections.abc import Mapping, Sequence

from msgspec import Struct


class Launch(Struct, frozen=True):
    """Arguments for `subprocess.Popen`. `mark`: the part of the environment that even a program around it gets."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    mark: Mapping[str, str]
    stdin: int
    stdout: int
    stderr: int
    pass_fds: tuple[int, ...] = ()

    def popen(
        self,
        argv: Sequence[str] = (),
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        more_fds: tuple[int, ...] = (),
    ) -> subprocess.Popen[bytes]:
        """Starts it, or the given replacement, in a new session."""
        return subprocess.Popen(
            argv or self.argv,
            stdin=self.stdin,
            stdout=self.stdout,
            stderr=self.stderr,
            cwd=cwd or self.cwd,
            env=self.env if env is None else env,
            pass_fds=(*self.pass_fds, *more_fds),
            start_new_session=True,
        )
