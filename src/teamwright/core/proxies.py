"""Chooses the proxy for an address: http_proxy, https_proxy, all_proxy and no_proxy, in lower or upper case."""

from collections.abc import Mapping

_PORTS = {"http": 80, "https": 443}


def proxy_for(scheme: str, host: str, port: int | None, env: Mapping[str, str]) -> str | None:
    """The URL of the proxy that the environment names for this address. Raises ValueError for a proxy we cannot use."""
    names = (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
    proxy = next((env[name] for name in names if env.get(name)), None)
    exceptions = (env.get("no_proxy") or env.get("NO_PROXY") or "").replace(",", " ").lower().split()
    asked = str(port or _PORTS.get(scheme, ""))
    if proxy is None or any(_is_excepted(entry, host.lower(), asked) for entry in exceptions):
        return None
    if "://" not in proxy:
        return f"http://{proxy}"
    if not proxy.startswith(("http://", "https://")):
        kind = proxy.partition("://")[0]
        raise ValueError(f"The environment names a {kind} proxy; only http and https proxies can be used.")
    return proxy


def _is_excepted(entry: str, host: str, port: str) -> bool:
    """Does an entry of no_proxy name this host, or a domain above it? It may also name a port."""
    if entry == "*":
        return True
    name, only = entry.removeprefix("*").removeprefix("."), ""
    if name.startswith("["):
        name, _, only = name[1:].partition("]")
        only = only.removeprefix(":")
    elif name.count(":") == 1:
        name, _, only = name.partition(":")
    return name != "" and only in ("", port) and (host == name or host.endswith(f".{name}"))
