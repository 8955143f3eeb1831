"""Explains in words why a connection failed or broke."""

import errno
import re
from collections.abc import Iterator
from typing import cast

_NUMBER = re.compile(r"\[Errno (-?\d+)\]")
_WORDS = {
    errno.ECONNREFUSED: "the connection was refused; check that the server runs, and at that port",
    errno.ECONNRESET: "the connection was cut",
    errno.EPIPE: "the connection was cut",
    errno.EHOSTUNREACH: "there is no way to that host; check the network",
    errno.ENETUNREACH: "there is no way to that network; check the connection",
    errno.ETIMEDOUT: "there was no answer in time; check the network and firewalls",
}
_NO_TLS = "the server there does not speak TLS; check the address (https, tls)"
_NO_NAME = "the name of the host cannot be resolved; check its spelling and the network"


def network_words(error: BaseException) -> str:
    """The explanation; empty if the error has another cause. Libraries reword system errors or reduce them to a number,
    so the causes underneath are searched too."""
    for one in _beneath(error):
        numbers = [one.errno] if isinstance(one, OSError) and one.errno else map(int, _NUMBER.findall(str(one)))
        for number in numbers:
            if number < 0:  # a resolver error
                return _NO_NAME
            if number in _WORDS:
                return _WORDS[number]
        if "WRONG_VERSION_NUMBER" in str(one):
            return _NO_TLS
    return ""


def _beneath(error: BaseException) -> Iterator[BaseException]:
    """The error, the members of its group, and its causes."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", one).exceptions
        waiting += [other for other in (one.__cause__, one.__context__) if other is not None]
