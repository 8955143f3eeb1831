"""This machine's time zone, with its daylight-saving changes."""

from collections.abc import Mapping
from datetime import datetime, tzinfo
from pathlib import Path


def local_zone(env: Mapping[str, str], file: Path = Path("/etc/localtime")) -> tzinfo:
    """The zone named by TZ, else the machine's; if neither is readable, today's offset."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415

    if name := env.get("TZ", "").removeprefix(":"):
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass  # such as `CET-1CEST`, which only the C library understands
    else:
        try:
            with file.open("rb") as data:
                return ZoneInfo.from_file(data)
        except (OSError, ValueError):
            pass
    zone = datetime.now().astimezone().tzinfo
    assert zone is not None
    return zone
