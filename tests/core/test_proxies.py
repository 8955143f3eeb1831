"""Which proxy an address is reached through."""

from urllib.parse import urlsplit

import pytest

from teamwright.core.proxies import proxy_for


@pytest.mark.parametrize(
    ("url", "env", "proxy"),
    [
        ("https://a.example/v1", {}, None),
        ("https://a.example/v1", {"HTTP_PROXY": "http://p"}, None),
        ("http://a.example/v1", {"HTTPS_PROXY": "http://p"}, None),
        ("https://a.example/v1", {"HTTPS_PROXY": "http://p"}, "http://p"),
        ("https://a.example/v1", {"https_proxy": "p:1", "HTTPS_PROXY": "q"}, "http://p:1"),
        ("https://a.example/v1", {"ALL_PROXY": "http://p"}, "http://p"),
        ("https://a.example/v1", {"ALL_PROXY": "socks5://p", "https_proxy": "http://q"}, "http://q"),
        ("https://a.example/v1", {"ALL_PROXY": "socks5://p", "NO_PROXY": "a.example"}, None),
        ("https://a.example/v1", {"HTTPS_PROXY": "http://p", "NO_PROXY": "b.example, a.example"}, None),
        ("https://a.example/v1", {"HTTPS_PROXY": "http://p", "NO_PROXY": "b.example a.example"}, None),
        ("https://a.example/v1", {"HTTPS_PROXY": "http://p", "NO_PROXY": ".example"}, None),
        ("https://a.example/v1", {"HTTPS_PROXY": "http://p", "NO_PROXY": "*.EXAMPLE"}, None),
        ("https://a.example/v1", {"HTTPS_PROXY": "http://p", "no_proxy": "*"}, None),
        ("https://a.example/v1", {"HTTPS_PROXY": "http://p", "NO_PROXY": "le,xa.example"}, "http://p"),
        ("http://127.0.0.1:80/v1", {"HTTP_PROXY": "http://p", "NO_PROXY": "localhost,127.0.0.1"}, None),
        ("http://[::1]:80/v1", {"HTTP_PROXY": "http://p", "NO_PROXY": "[::1]"}, None),
        ("http://[::1]:80/v1", {"HTTP_PROXY": "http://p", "NO_PROXY": "::1"}, None),
        ("http://[::1]:80/v1", {"HTTP_PROXY": "http://p", "NO_PROXY": "[::1]:81"}, "http://p"),
        ("http://a.example:81/v1", {"HTTP_PROXY": "http://p", "NO_PROXY": "a.example:81"}, None),
        ("http://b.a.example:81/v1", {"HTTP_PROXY": "http://p", "NO_PROXY": "a.example:81"}, None),
        ("http://a.example:82/v1", {"HTTP_PROXY": "http://p", "NO_PROXY": "a.example:81"}, "http://p"),
        ("https://a.example/v1", {"HTTPS_PROXY": "http://p", "NO_PROXY": "a.example:443"}, None),
    ],
)
def test_which_proxy(url: str, env: dict[str, str], proxy: str | None) -> None:
    parts = urlsplit(url)
    assert proxy_for(parts.scheme, parts.hostname or "", parts.port, env) == proxy


def test_a_kind_of_proxy_that_cannot_be_used() -> None:
    with pytest.raises(ValueError, match="socks5"):
        proxy_for("https", "a.example", None, {"HTTPS_PROXY": "socks5://p"})
