"""The address of an engine: `nats://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...]/SPACE`, or `tls://`."""

import re
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId

_SPACE = re.compile(r"[a-z0-9-]{1,32}")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_PORT = ":4222"
_MOST_PORT = 65535
_AGENT = re.compile(r"[A-Za-z0-9-]{1,64}")
_PARTS = 3  # slashes of an address that names its space


class Address(Struct, frozen=True):
    """An address. It is shown, stored and logged as `str`, which leaves out user and password."""

    scheme: str
    hosts: tuple[str, ...]
    space: str = "main"
    user: str = ""
    password: str = ""
    authority: str = ""  # a file of trusted certificates
    creds: str = ""  # a file of credentials, in place of a password

    def __str__(self) -> str:
        return f"{self.scheme}://{','.join(self.hosts)}/{self.space}"

    @property
    def replicas(self) -> int:
        """The number of nodes that keep everything."""
        return 3 if len(self.hosts) >= 3 else 1

    @property
    def servers(self) -> list[str]:
        return [f"{self.scheme}://{host}" for host in self.hosts]


def read_named(text: str, cwd: Path, authority: str = "", creds: str = "") -> Address:
    """An address, or `@FILE` which holds one; then a `ca.pem` beside the file is trusted."""
    authority, creds = (str(cwd / Path(file).expanduser()) if file else "" for file in (authority, creds))
    if not text.startswith("@"):
        return replace(read_address(text), authority=authority, creds=creds)
    file = cwd / Path(text[1:]).expanduser()
    try:
        found = read_address(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"The address of the engine cannot be read from {file}: {why}.") from None
    beside = file.with_name("ca.pem")
    return replace(found, authority=authority or (str(beside) if beside.is_file() else ""), creds=creds)


def read_address(text: str) -> Address:
    scheme, mark, rest = text.strip().partition("://")
    before, _, space = rest.partition("/")
    who, at, places = before.rpartition("@")
    user, _, password = who.partition(":")
    hosts = tuple(places.split(","))
    good = scheme in ("nats", "tls") and mark and all(map(_is_host, hosts))
    if not good or (space and not _SPACE.fullmatch(space)) or (at and not user):
        raise UsageError(
            "The address of an engine is nats://HOST:PORT[,HOST:PORT...]/SPACE, or tls:// likewise, "
            "with USER:PASSWORD@ before the first HOST if the engine wants them; "
            "SPACE has at most 32 small letters, digits and hyphens."
        )
    full = tuple(host if re.search(r":[0-9]+$", host) else host + _PORT for host in hosts)
    return Address(scheme, full, space or "main", unquote(user), unquote(password))


def _is_host(text: str) -> bool:
    found = _HOST.fullmatch(text)
    return found is not None and 0 < int((found[2] or _PORT)[1:]) <= _MOST_PORT


def agent_url(address: Address, agent: AgentId) -> str:
    """The URL to watch an agent in a space, from any machine that is let into it."""
    return f"{address}/{agent}"


def read_agent_url(text: str) -> tuple[Address, AgentId]:
    place, _, agent = text.strip().rpartition("/")
    if not _AGENT.fullmatch(agent) or place.count("/") < _PARTS:
        raise UsageError(
            "The address of an agent is that of its engine, its space and its id: nats://HOST:PORT/SPACE/ID"
        )
    return read_address(place), AgentId(agent)
