"""Separate program that reads a PDF from stdin and prints the text of its pages as JSON, one line per page.

It is a process because a malicious PDF can loop or grow forever, and only a process can be killed. Imports none of our
modules.
"""

import json
import resource
import sys

_MEMORY = 1 << 30
_SECONDS = 60
_MOST = 120_000  # characters per page


def main(first: int, count: int) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    from pypdf import PdfReader  # noqa: PLC0415  # after the limits

    reader = PdfReader(sys.stdin.buffer)
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("it is protected by a password")
    total = len(reader.pages)
    _tell({"total": total})
    for number in range(first, min(first + count, total + 1)):
        text = reader.pages[number - 1].extract_text()
        _tell({"page": number, "text": text[:_MOST]})
    return 0


def _tell(what: dict[str, object]) -> None:
    out = sys.stdout.buffer
    out.write(json.dumps(what, ensure_ascii=False).encode(errors="replace") + b"\n")
    out.flush()


if __name__ == "__main__":
    try:
        sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
    except Exception as error:  # noqa: BLE001  # the edge of a program: whatever broke is said in one line
        print(f"{type(error).__name__}: {error}"[:500], file=sys.stderr)  # noqa: T201
        sys.exit(1)
