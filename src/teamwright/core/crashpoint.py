"""Crash points at which a test can kill the program. They do nothing unless armed, and only `app` arms one."""

import os
import signal


class _Armed:
    name = ""
    passes = 0


def arm(name: str, passes: int = 1) -> None:
    """Die by SIGKILL at the `passes`-th pass of this crash point."""
    _Armed.name, _Armed.passes = name, passes


def armed(name: str) -> bool:
    return name == _Armed.name


def crashpoint(name: str) -> None:
    if name == _Armed.name:
        _Armed.passes -= 1
        if _Armed.passes <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
