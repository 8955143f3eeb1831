"""Routes each request to the provider that its model names."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.core.data.extensions.search import WebQuery
from teamwright.core.data.message import Reply, Request
from teamwright.core.errors import ModelError
from teamwright.core.ports import Model, OnDelta
from teamwright.models.catalog import Catalog
from teamwright.models.providers import Providers

if TYPE_CHECKING:
    from teamwright.models.local_server import LocalServer
    from teamwright.models.web_search import SearchModel


class RoutedModel(Struct, eq=False):
    """`opened` are models that exist already, by full name: those that were asked, and a caller's own."""

    catalog: Catalog
    providers: Providers
    named: Collection[str]
    opened: dict[str, Model]
    think: bool = True

    def open(self, name: str) -> Model:
        """Raises ModelError if the provider cannot be used at all: no key, no such server."""
        if name not in self.opened:
            info = self.catalog.resolve(name, named=self.named)
            if info.provider == "script":
                from teamwright.models.scripted import ScriptedModel  # noqa: PLC0415

                self.opened[name] = ScriptedModel.load(info.name)
            else:
                self.opened[name] = self.providers.open(
                    info.provider, max_output=info.max_output, thinking=info.thinking if self.think else "none"
                )
        return self.opened[name]

    def check(self, name: str) -> None:
        """Raises what `open` would raise. A provider's client is made for the first request: it is slow to import."""
        if name not in self.opened:
            info = self.catalog.resolve(name, named=self.named)
            if info.provider == "script":
                self.open(name)
            else:
                self.providers.check(info.provider)

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        model, provider = self.open(request.model), request.model.partition("/")[0]
        renewable = await self.providers.prepare(provider)
        try:
            return await model.reply(request, on_delta)
        except ModelError as error:
            if error.fault == "auth" and renewable:
                await self.providers.prepare(provider, fresh=True)
                return await model.reply(request, on_delta)
            if error.fault != "context" or any(message.role == "assistant" for message in request.messages):
                raise
            from teamwright.models.wires.overflow import too_long_at_first  # noqa: PLC0415

            raise too_long_at_first(error, request, await self._server(request.model)) from None

    def searcher(self, name: str, query: WebQuery) -> "SearchModel":
        """What searches the web with the tool of this model's provider."""
        return self.providers.searcher(self.catalog.resolve(name, named=self.named).provider, query)

    def address(self, name: str) -> tuple[str, int] | None:
        """Host and port where it is asked; None for one without a server."""
        return self.providers.address(name.partition("/")[0])

    def key_origin(self, name: str) -> str:
        """The variable or setting that gives its provider's key; empty: none is used."""
        return self.providers.key_origin(name.partition("/")[0])

    async def window(self, name: str) -> int | None:
        """What the server itself says; None where nobody knows."""
        server = await self._server(name)
        return server.window if server else None

    async def _server(self, name: str) -> "LocalServer | None":
        """As a server of one's own answers; None where there is none."""
        ask = getattr(self.open(name), "server", None)
        return await ask(self.catalog.resolve(name, named=self.named).name) if ask is not None else None

    async def aclose(self) -> None:
        await self.providers.aclose()
