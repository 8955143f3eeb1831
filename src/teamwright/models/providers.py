"""Providers from the environment and the settings; each is opened when first needed."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from teamwright.core.errors import ModelError
from teamwright.core.ports import Model

if TYPE_CHECKING:
    from teamwright.core.data.extensions.search import WebQuery
    from teamwright.models.http import HttpClient
    from teamwright.models.retry import Brake, Reach
    from teamwright.models.web_search import SearchModel
    from teamwright.models.wires import anthropic, openai

ThinkingStyle = Literal["adaptive", "budget", "none"]


class KeySource(Protocol):
    """Supplies Anthropic's key if no variable does; `fresh`: the previous key was refused."""

    async def __call__(self, *, fresh: bool = False) -> str: ...


class ProviderSettings(Struct, frozen=True):
    """A server under a custom name, as configured in settings."""

    baseUrl: str
    keyEnv: str | None = None
    wire: Literal["openai", "anthropic"] = "openai"


class _Shared(Struct):
    """What all models of one provider share."""

    settings: ProviderSettings
    headers: dict[str, str]
    key_name: str
    base_name: str
    brake: "Brake"
    wire: "anthropic.AnthropicWire | openai.OpenAIWire | None" = None


_OWN = {
    "anthropic": ("https://api.anthropic.com", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "openai": ("https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
}


class Providers(Struct, eq=False):
    """Opens models. Models of one provider share connections, the brake, and the bytes already encoded."""

    env: Mapping[str, str]
    silence: float = 60.0
    retries: int = 10
    named: Mapping[str, ProviderSettings] = {}
    version: str = ""  # reported to servers as `teamwright/VERSION`
    betas: Sequence[str] = ()
    thinking_display: str = ""
    key_source: KeySource | None = None
    meanwhile: Callable[[], None] | None = None  # called once, when the first request has left
    _http: "HttpClient | None" = None
    _shared: dict[str, _Shared] = {}
    _models: "dict[tuple[str, int | None, ThinkingStyle], anthropic.Anthropic | openai.OpenAI]" = {}

    def open(self, provider: str, *, max_output: int | None = None, thinking: ThinkingStyle = "none") -> Model:
        """The model client for `provider`; raises ModelError (config) that says what to set."""
        key = (provider, max_output, thinking)
        if key not in self._models:
            self._models[key] = self._make(provider, max_output, thinking)
        return self._models[key]

    def check(self, provider: str) -> None:
        """Raises the same errors as `open`, without the slow imports that a request needs."""
        self._share(provider)

    async def prepare(self, provider: str, *, fresh: bool = False) -> bool:
        """Fetches the key before a request if a source supplies it. Returns False if none does."""
        if self.key_source is None or not self._is_given_keys(provider):
            return False
        key = await self.key_source(fresh=fresh)
        self._share(provider).headers.update({"x-api-key": key, "Authorization": f"Bearer {key}"})
        return True

    def _is_given_keys(self, provider: str) -> bool:
        if self.key_source is None or provider != "anthropic" or provider in self.named:
            return False
        return not (self._secret("ANTHROPIC_AUTH_TOKEN") or self._secret("ANTHROPIC_API_KEY"))

    def address(self, provider: str) -> tuple[str, int] | None:
        """Host and port of the provider's server; None if it has none."""
        if provider not in _OWN and provider not in self.named:
            return None
        found = urlsplit(self._settings(provider)[0].baseUrl)
        return (found.hostname, found.port or (80 if found.scheme == "http" else 443)) if found.hostname else None

    def key_origin(self, provider: str) -> str:
        """The variable or setting that supplies the key; empty if no key is used."""
        if provider not in _OWN and provider not in self.named:
            return ""  # a script, or a model supplied by code
        names = ["ANTHROPIC_AUTH_TOKEN" if provider == "anthropic" else "", self._settings(provider)[0].keyEnv or ""]
        found = next((name for name in names if name and self._secret(name)), "")
        return found or ("apiKeyHelper" if self._is_given_keys(provider) else "")

    async def aclose(self) -> None:
        http, self._http = self._http, None
        self._shared.clear()
        self._models.clear()
        if http is not None:
            await http.aclose()

    def _make(
        self, provider: str, max_output: int | None, thinking: ThinkingStyle
    ) -> "anthropic.Anthropic | openai.OpenAI":
        shared, http = self._share(provider), self._client()
        reach = self._reach(shared, max_output)
        if shared.settings.wire == "openai":
            from teamwright.models.wires import openai  # noqa: PLC0415 - only the wire that is spoken

            chat = shared.wire = shared.wire if isinstance(shared.wire, openai.OpenAIWire) else openai.OpenAIWire()
            return openai.OpenAI(http, reach, wire=chat)
        from teamwright.models.wires import anthropic  # noqa: PLC0415

        wire = shared.wire = (
            shared.wire if isinstance(shared.wire, anthropic.AnthropicWire) else anthropic.AnthropicWire()
        )
        return anthropic.Anthropic(
            http, reach, wire=wire, thinking=thinking, betas=tuple(self.betas), thinking_display=self.thinking_display
        )

    def is_own(self, provider: str) -> bool:
        """Does the provider speak chat completions at an address that the person chose?"""
        if provider in self.named:
            return self.named[provider].wire == "openai"
        base, variable, _ = _OWN["openai"]
        return provider == "openai" and (self.env.get(variable, "").strip() or base).rstrip("/") != base

    def searcher(self, provider: str, query: "WebQuery") -> "SearchModel":
        """A model that runs one web search with the provider's own tool."""
        from teamwright.models.web_search import SearchModel  # noqa: PLC0415

        shared = self._share(provider)
        reach = self._reach(shared, None)
        return SearchModel(
            self._client(),
            query,
            wire=shared.settings.wire,
            reach=reach,
        )

    def _client(self) -> "HttpClient":
        from teamwright.models.http import HttpClient  # noqa: PLC0415 - brings aiohttp

        if self._http is None:
            self._http = HttpClient(self.env, silence=self.silence, version=self.version, meanwhile=self.meanwhile)
        return self._http

    def _reach(self, shared: _Shared, max_output: int | None) -> "Reach":
        from teamwright.models.retry import Patience, Reach  # noqa: PLC0415

        base, patience = shared.settings.baseUrl, Patience(self.retries)
        return Reach(base, shared.headers, shared.key_name, shared.base_name, max_output, patience, shared.brake)

    def _share(self, provider: str) -> _Shared:
        from teamwright.models.retry import Brake  # noqa: PLC0415

        if provider not in self._shared:
            settings, key_name, base_name = self._settings(provider)
            headers = self._headers(provider, settings, key_name, base_name)
            self._shared[provider] = _Shared(settings, headers, key_name, base_name, Brake())
        return self._shared[provider]

    def _settings(self, provider: str) -> tuple[ProviderSettings, str, str]:
        """(settings, name of the key's variable, where the address comes from)."""
        if provider in self.named:
            settings = self.named[provider]
            where = f"providers.{provider}.baseUrl"
            found = settings, settings.keyEnv or f"providers.{provider}.keyEnv", where
        elif provider in _OWN:
            base, base_name, key_name = _OWN[provider]
            url = self.env.get(base_name, "").strip() or base
            wire = "openai" if provider == "openai" else "anthropic"
            found = ProviderSettings(url, key_name, wire), key_name, base_name
        else:
            known = ", ".join(sorted({*_OWN, *self.named}))
            text = f"There is no provider `{provider}` (there are: {known}). Name it under `providers` in settings."
            raise ModelError(text, "config")
        _check_address(found[0].baseUrl, found[2])
        return found

    def _headers(self, provider: str, settings: ProviderSettings, key_name: str, base_name: str) -> dict[str, str]:
        token = self._secret("ANTHROPIC_AUTH_TOKEN") if provider == "anthropic" else ""
        key = self._secret(settings.keyEnv) if settings.keyEnv else ""
        if token:
            return {"Authorization": f"Bearer {token}"}
        if key:
            return {"x-api-key": key} if settings.wire == "anthropic" else {"Authorization": f"Bearer {key}"}
        if not self._is_given_keys(provider):
            self._require_none(provider, settings, key_name, base_name)
        return {}

    def _require_none(self, provider: str, settings: ProviderSettings, key_name: str, base_name: str) -> None:
        """Fails without a key, except for a server of the person's own whose settings name none."""
        host = urlsplit(settings.baseUrl).hostname
        vendors = provider in _OWN and host == urlsplit(_OWN[provider][0]).hostname
        if vendors or (provider in self.named and settings.keyEnv):
            other = " or ANTHROPIC_AUTH_TOKEN" if provider == "anthropic" else ""
            local = f", or {base_name} to a server of your own" if vendors else ""
            raise ModelError(f"There is no key for {host}. Set {key_name}{other}{local}.", "config")

    def _secret(self, name: str) -> str:
        value = self.env.get(name, "").strip()
        if not (value.isascii() and value.isprintable()):
            text = f"{name} holds characters that no key has. Was it copied with a line break or a quotation mark?"
            raise ModelError(text, "config")
        return value


def _check_address(url: str, where: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        told = url.rpartition("@")[2].partition("?")[0]  # a password may precede `@`, a token may follow `?`
        raise ModelError(f"{where} is {told!r}, which is not an http or https address. Correct or unset it.", "config")
