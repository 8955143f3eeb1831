"""Messages behind headers: parsed from any chunks, with bounds on everything."""

import pytest

from teamwright.host.lsp.client import cut_messages, wrap_message
from teamwright.host.mcp.stdio_client import LONGEST, cut_lines


@pytest.mark.parametrize("step", [1, 2, 3, 7, 10_000])
def test_messages_are_whole_however_they_arrive(step: int) -> None:
    sent = [b'{"a":1}', b"", "ä\r\n\r\nö".encode(), b"x" * 5_000]
    odd = b"Content-Type: x\r\ncontent-length:%d\r\n\r\n%b" % (len(sent[2]), sent[2])
    data = b"".join([wrap_message(sent[0]), wrap_message(sent[1]), odd, wrap_message(sent[3])])
    data += b"Content-Length: 9\r\n\r\nhalf"
    rest = bytearray()
    found = [m for at in range(0, len(data), step) for m in cut_messages(data[at : at + step], rest)]
    assert found == sent and bytes(rest) == b"Content-Length: 9\r\n\r\nhalf"


@pytest.mark.parametrize(
    "data",
    [
        b"Welcome!\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: many\r\n\r\n",
        b"Content-Length: %d\r\n\r\n" % (LONGEST + 1),
        b"x" * 9_000,
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="it sent"):
        cut_messages(data, bytearray())


def test_lines_are_whole_and_none_is_empty() -> None:
    rest = bytearray()
    assert cut_lines(b'{"a"', rest) == [] and cut_lines(b":1}\r\n\n  \n[2", rest) == [b'{"a":1}']
    assert cut_lines(b"]\n", rest) == [b"[2]"] and rest == b""
