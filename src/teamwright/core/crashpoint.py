"""Crash points at which a test can kill the program. They do nothing unless armed, and only `app` arms one."""

import os
import signal


class Armed:
    """The crash point that is armed; an empty name means none."""

    name = ""
    passes = 0


def arm(name: str, passes: int = 1) -> None:
    """Die by SIGKILL at the `passes`-th pass of this crash point."""
    Armed.name, Armed.passes = name, passes


def crashpoint(name: str) -> None:
    if name == Armed.name:
        Armed.passes -= 1
        if Armed.passes <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
