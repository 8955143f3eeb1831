"""Distinguishes public network addresses from those that lead back into this machine or its network."""

import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Allowed = Callable[[Address], bool]

# Listed explicitly, because the Python versions we support differ in what they count as global.
_CLOSED_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carriers' shared space; one cloud's metadata
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # a cloud's metadata on a public address
            "169.254.0.0/16",  # link-local; metadata of most clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/3",  # multicast, reserved, broadcast
        ),
    )
)
_OPEN_6 = IPv6Network("2000::/3")  # the only global unicast space given out so far
_CLOSED_6 = tuple(
    map(IPv6Network, ("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20"))  # protocols, documentation
)
_NAT64 = IPv6Network("64:ff9b::/96")
_TEREDO = IPv6Network("2001::/32")
_LOCAL_NAMES = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "home.arpa")


def is_public(address: Address) -> bool:
    """Is it a machine on the internet? IPv6 forms that contain an IPv4 address are judged by that too."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _CLOSED_4)
    if address.ipv4_mapped:
        return is_public(address.ipv4_mapped)
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    if address.sixtofour:
        return is_public(address.sixtofour)
    if address in _TEREDO and address.teredo:
        return all(is_public(part) for part in address.teredo)
    if (int(address) >> 32) & 0xFDFFFFFF == 0x5EFE:  # ISATAP
        return is_public(IPv4Address(int(address) & 0xFFFFFFFF)) and address in _OPEN_6
    return address in _OPEN_6 and not any(address in network for network in _CLOSED_6)


def literal(host: str) -> Address | None:
    """The address that a host name is by itself, in any notation that systems take (`127.1`, `0x7f000001`)."""
    try:
        return ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host.rstrip(".")))
    except (OSError, ValueError):
        return None


def is_local_name(host: str) -> bool:
    """Is it a name that only a local network knows? For cases where a proxy resolves the name."""
    name = host.rstrip(".").lower()
    return "." not in name or name.endswith(tuple(f".{local}" for local in _LOCAL_NAMES))


def is_this_machine(host: str) -> bool:
    """By name or address; no proxy is used for it."""
    address = literal(host)
    return host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)
