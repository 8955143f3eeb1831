"""Routes each request to the provider that its model names."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from teamwright.core.data.message import Reply, Request
from teamwright.core.data.search import WebQuery
from teamwright.core.errors import ModelError
from teamwright.core.ports import Model, OnDelta
from teamwright.models.catalog import Catalog
from teamwright.models.providers import Providers

if TYPE_CHECKING:
    from teamwright.models.local_server import LocalServer
    from teamwright.models.web_search import SearchModel


class RoutedModel:
    def __init__(
        self,
        catalog: Catalog,
        providers: Providers,
        named: Collection[str],
        given: Mapping[str, Model],
        *,
        think: bool = True,
    ) -> None:
        """`given` are models that exist already, by full name: a scripted one, or a caller's own."""
        self._think = think
        self._catalog = catalog
        self._providers = providers
        self._named = named
        self._open: dict[str, Model] = dict(given)

    def open(self, name: str) -> Model:
        """Raises ModelError if the provider cannot be used at all: no key, no such server."""
        if name not in self._open:
            info = self._catalog.resolve(name, named=self._named)
            if info.provider == "script":
                from teamwright.models.scripted import ScriptedModel  # noqa: PLC0415

                self._open[name] = ScriptedModel.load(info.name)
            else:
                self._open[name] = self._providers.open(
                    info.provider, max_output=info.max_output, thinking=info.thinking if self._think else "none"
                )
        return self._open[name]

    def check(self, name: str) -> None:
        """Raises what `open` would raise. A provider's client is made for the first request: it is slow to import."""
        if name not in self._open:
            info = self._catalog.resolve(name, named=self._named)
            if info.provider == "script":
                self.open(name)
            else:
                self._providers.check(info.provider)

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        model = self.open(request.model)
        try:
            return await model.reply(request, on_delta)
        except ModelError as error:
            if error.fault != "context" or any(message.role == "assistant" for message in request.messages):
                raise
            from teamwright.models.overflow import too_long_at_first  # noqa: PLC0415

            raise too_long_at_first(error, request, await self._server(request.model)) from None

    def searcher(self, name: str, query: WebQuery) -> "SearchModel":
        """What searches the web with the tool of this model's provider."""
        return self._providers.searcher(self._catalog.resolve(name, named=self._named).provider, query)

    def is_own(self, name: str) -> bool:
        """Is it a model on a server of one's own? Nothing is opened to tell."""
        return self._providers.is_own(self._catalog.resolve(name, named=self._named).provider)

    async def window(self, name: str) -> int | None:
        """What the server itself says; None where nobody knows."""
        server = await self._server(name)
        return server.window if server else None

    async def _server(self, name: str) -> "LocalServer | None":
        """As a server of one's own answers; None where there is none."""
        ask = getattr(self.open(name), "server", None)
        return await ask(self._catalog.resolve(name, named=self._named).name) if ask is not None else None

    async def aclose(self) -> None:
        await self._providers.aclose()
