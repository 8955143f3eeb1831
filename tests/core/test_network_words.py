"""Network errors are put into words, even where a library hides the cause."""

import errno
import socket
import ssl

import pytest

from teamwright.core.network_words import network_words


def made_of(error: Exception) -> Exception:
    outer = RuntimeError("All connection attempts failed")
    outer.__cause__ = ExceptionGroup("several", [error])
    return outer


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "refused"),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 111] again"), "refused"),
        (made_of(ConnectionRefusedError(errno.ECONNREFUSED, "no")), "refused"),
        (socket.gaierror(-2, "Name or service not known"), "the name of the host cannot be resolved"),
        (RuntimeError("[Errno -3] Temporary failure"), "the name of the host cannot be resolved"),
        (OSError(errno.ENETUNREACH, "x"), "no way to that network"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"), "does not speak TLS"),
    ],
)
def test_the_cause_is_said_in_words(error: Exception, words: str) -> None:
    said = network_words(error)
    assert words in said and "Errno" not in said


def test_other_errors_are_none_of_the_network() -> None:
    assert network_words(RuntimeError("its answer does not fit")) == ""
    assert network_words(FileNotFoundError(errno.ENOENT, "no")) == ""
