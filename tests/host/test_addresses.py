"""Which addresses belong to the public internet, in any notation."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teamwright.host.web.addresses import is_local_name, is_public, literal

NAT64 = IPv6Network("64:ff9b::/96")

PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.255",
    "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1",
    "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1",
    "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2001::1", "2001:0:7f00:1::1",
    "2001:0:808:808:0:0:80ff:fffe", "100::1", "3fff::1", "2600::5efe:7f00:1", "2600::200:5efe:a00:1",
]  # fmt: skip
PUBLIC = [
    "8.8.8.8", "1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1",
    "11.0.0.1", "223.255.255.1", "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
    "2002:808:808::1",
]  # fmt: skip


@pytest.mark.parametrize("text", PRIVATE)
def test_addresses_of_this_machine_or_a_network_of_its_own(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_addresses_of_the_internet(text: str) -> None:
    assert is_public(ip_address(text))


@settings(deadline=None, max_examples=300, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.ip_addresses())
def test_nothing_that_python_knows_as_local_is_public(address: IPv4Address | IPv6Address) -> None:
    local = address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
    known = isinstance(address, IPv6Address) and (address.ipv4_mapped or address.sixtofour or address in NAT64)
    if not known and (local or address.is_reserved or address.is_unspecified):
        assert not is_public(address)


@settings(deadline=None, max_examples=200, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.ip_addresses(v=4))
def test_an_ipv4_address_in_the_clothes_of_ipv6_is_judged_as_itself(inner: IPv4Address) -> None:
    n = int(inner)
    for dressed in (0xFFFF << 32 | n, 0x64FF9B << 96 | n, 0x2002 << 112 | n << 80 | 1):
        assert is_public(IPv6Address(dressed)) == is_public(inner)
    assert not is_public(IPv6Address(n))  # the old IPv4-compatible form leads nowhere useful


def test_addresses_in_odd_notations_are_seen() -> None:
    for text in ("127.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.0.0.1.", "0", "[::1]", "::1", "fe80::1%eth0"):
        address = literal(text)
        assert address is not None and not is_public(address), text
    assert literal("example.com") is None and literal("") is None and literal("a b") is None
    assert all(map(is_local_name, ("localhost", "LOCALHOST.", "db", "x.local", "metadata.google.internal")))
    assert not is_local_name("example.com")
