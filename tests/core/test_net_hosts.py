"""Host rules of the sandbox: what people write, what programs ask for, and that a denial never widens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.core.sandbox.hosts import (
    Hosts,
    canonical_host,
    forwarded_ports,
    host_verdict,
    split_target,
)

ALLOWED = (
    *("example.com", "*.wild.org", "api.dev:8443", "*.deep.net:9000", "192.0.2.7", "10.0.0.5:8080", "[2001:db8::1]"),
    *("localhost:5432", "straße.de", "MiXed.Case."),
)


@pytest.mark.spec("V8")
@pytest.mark.parametrize(
    ("host", "port", "verdict"),
    [
        ("example.com", 80, "yes"),
        ("example.com", 443, "yes"),
        ("example.com", 8080, "no"),
        ("EXAMPLE.com.", 443, "yes"),
        ("example.com..", 443, "no"),
        ("sub.example.com", 443, "no"),
        ("notexample.com", 443, "no"),
        ("example.com.evil.net", 443, "no"),
        ("example.comevil", 443, "no"),
        ("a.wild.org", 443, "yes"),
        ("a.b.wild.org", 443, "yes"),
        ("wild.org", 443, "no"),
        ("notwild.org", 443, "no"),
        (".wild.org", 443, "no"),
        ("api.dev", 8443, "yes"),
        ("api.dev", 443, "no"),
        ("x.deep.net", 9000, "yes"),
        ("x.deep.net", 443, "no"),
        ("192.0.2.7", 80, "yes"),
        ("192.0.2.7", 8080, "no"),
        ("192.0.2.007", 80, "no"),
        ("192.0.2.7.", 80, "no"),
        ("3221225991", 80, "no"),
        ("0xc0.0.2.7", 80, "no"),
        ("::ffff:192.0.2.7", 80, "no"),
        ("10.0.0.5", 8080, "yes"),
        ("2001:db8::1", 443, "yes"),
        ("2001:DB8::1", 443, "yes"),
        ("2001:db8:0::1", 443, "no"),
        ("localhost", 5432, "yes"),
        ("localhost", 80, "no"),
        ("127.0.0.1", 5432, "no"),
        ("xn--strae-oqa.de", 443, "yes"),
        ("strasse.de", 443, "no"),
        ("mixed.case", 443, "yes"),
        ("example.com", 0, "no"),
        ("example.com", 65_536 + 443, "no"),
    ],
)
def test_what_is_allowed(host: str, port: int, verdict: str):
    assert host_verdict(Hosts(ALLOWED), host, port) == verdict


@pytest.mark.spec("V8")
@pytest.mark.parametrize(
    ("denied", "host", "port", "verdict"),
    [
        ("bad.example.com", "bad.example.com", 443, "no"),
        ("bad.example.com", "good.example.com", 443, "yes"),
        ("bad.example.com", "below.bad.example.com", 443, "no"),
        ("bad.example.com", "notbad.example.com", 443, "yes"),
        ("*.bad.example.com", "bad.example.com", 443, "no"),
        ("bad.example.com:443", "bad.example.com", 80, "yes"),
        ("https://bad.example.com/path", "bad.example.com", 443, "no"),
        ("*", "good.example.com", 443, "no"),
        ("bücher.example.com", "xn--bcher-kva.example.com", 443, "no"),
        ("", "good.example.com", 443, "yes"),
    ],
)
def test_a_denial_wins(denied: str, host: str, port: int, verdict: str):
    assert host_verdict(Hosts(("*.example.com",), (denied,)), host, port) == verdict


@pytest.mark.spec("V9")
def test_what_nobody_named_is_asked_where_somebody_can_answer():
    hosts = Hosts(("a.org",), ("b.org",), ask=True)
    asked = {
        host: host_verdict(hosts, host, 443) for host in ("a.org", "b.org", "c.org", "localhost", "1.2.3.4", "1.2")
    }
    assert asked == {"a.org": "yes", "b.org": "no", "c.org": "ask", "localhost": "ask", "1.2.3.4": "ask", "1.2": "no"}


@pytest.mark.spec("V8")
@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "..", "a..b", ".a", "a b", "a\tb", "a\0", "a/b", "user@a", "a%2e", "a\\b", "ａ.org", "a.org:80"),
        *("127.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.0.0.1.", "1.2.3.4.5", "a.1", "a.0x1f", "256.1.1.1"),
        *("::ffff:127.0.0.1", "::ffff:7f00:1", "fe80::1%lo", "0::1", "::1.", "[::1]", "1::2::3", "x" * 254),
    ],
)
def test_names_that_two_programs_could_read_differently_are_none(text: str):
    assert canonical_host(text) is None


@pytest.mark.spec("V8")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.org:443", ("a.org", 443)),
        ("A.org.:443", ("a.org", 443)),
        ("[::1]:80", ("::1", 80)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        *[
            (text, None)
            for text in ("a.org", "a.org:", "a.org:0", "a.org:080", "a.org:+80", "a.org:65536", "a.org:80:80")
        ],
        *[
            (text, None)
            for text in ("::1:80", "[::1]", "[::1]80", "[a.org]:80", "[::1", "u@a.org:80", ":80", "a.org:8 0")
        ],
    ],
)
def test_targets_of_requests(text: str, found: tuple[str, int] | None):
    assert split_target(text) == found


@pytest.mark.spec("V8")
def test_ports_of_this_machine_that_a_box_finds_at_its_own():
    allowed = ("localhost:5432", "127.0.0.1:6379", "[::1]:9", "localhost", "a.org:1", "*.localhost:2", "localhost:7")
    assert forwarded_ports(Hosts(allowed, ("localhost:7",))) == (9, 5432, 6379)


_names = st.sampled_from(
    [f"{below}{name}" for below in ("", "a.", "b.a.") for name in ("x.org", "y.net", "localhost")]
    + ["127.0.0.1", "10.0.0.1", "::1", "2001:db8::1"]
)
_entries = st.builds(
    lambda star, name, port: f"{star}{f'[{name}]' if ':' in name else name}{port}",
    st.sampled_from(["", "*."]),
    _names,
    st.sampled_from(["", ":80", ":443", ":3000"]),
) | st.sampled_from(["*", "", "https://x.org", "127.1", "x.org:"])
_RANK = {"no": 0, "ask": 1, "yes": 2}


@pytest.mark.spec("V8")
@given(st.lists(_entries), st.lists(_entries), _entries, st.booleans(), _names, st.sampled_from([80, 443, 3000, 22]))
def test_a_denial_never_widens(allowed: list[str], denied: list[str], one: str, ask: bool, host: str, port: int):
    """Nor does removing an entry widen it; and whatever is denied was denied before anything was allowed."""
    before = Hosts(tuple(allowed), tuple(denied), ask)
    narrower = Hosts(tuple(allowed), (*denied, one), ask)
    wider = Hosts((*allowed, one), tuple(denied), ask)
    rank = _RANK[host_verdict(before, host, port)]
    assert _RANK[host_verdict(narrower, host, port)] <= rank <= _RANK[host_verdict(wider, host, port)]
    if host_verdict(Hosts((), tuple(denied), ask=True), host, port) == "no":
        assert rank == 0


@pytest.mark.spec("V8")
@given(st.text() | st.from_regex(r"[0-9a-fx.:\[\]]{1,20}", fullmatch=True))
def test_a_canonical_name_is_its_own(text: str):
    name = canonical_host(text)
    if name is not None:
        assert canonical_host(name) == name == name.lower() and not set(name) & set("/@\\%# \t\r\n[]")
