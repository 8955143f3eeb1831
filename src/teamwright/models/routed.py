"""Routes each request to the provider of its model."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.core.data.extensions.search import WebQuery
from teamwright.core.data.message import Reply, Request, Usage
from teamwright.core.errors import ModelError
from teamwright.core.ports import Model, OnDelta
from teamwright.models.catalog import Catalog
from teamwright.models.prices import cost
from teamwright.models.providers import Providers

if TYPE_CHECKING:
    from teamwright.models.local_server import LocalServer
    from teamwright.models.web_search import SearchModel


UNPRICED = "The price of {model} is not known, so it does not count towards the budget of ${usd:g}."
ADVICE = (
    "Add a limit of tokens (`--task-budget`, `teamwright.budget.tokens`), or set `teamwright.unknownPrices` to `allow`."
)


def is_priced(name: str) -> bool:
    return cost(name, Usage()) is not None


class RoutedModel(Struct, eq=False):
    """`opened` holds models by full name: those already used, and those supplied by code. `usd`: a budget that must
    count them all."""

    catalog: Catalog
    providers: Providers
    named: Collection[str]
    opened: dict[str, Model]
    think: bool = True
    usd: float | None = None

    def open(self, name: str) -> Model:
        """Raises ModelError if the provider is unusable: no key, no such provider."""
        if name not in self.opened:
            self._check_price(name)
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
        """Raises what `open` would. Leaves the slow import of a provider's client to the first request."""
        if name not in self.opened:
            self._check_price(name)
            info = self.catalog.resolve(name, named=self.named)
            if info.provider == "script":
                self.open(name)
            else:
                self.providers.check(info.provider)

    def _check_price(self, name: str) -> None:
        if self.usd is not None and not is_priced(name):
            raise ModelError(f"{UNPRICED.format(model=name, usd=self.usd)} {ADVICE}", "config")

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
        """Searches the web with the tool of this model's provider."""
        return self.providers.searcher(self.catalog.resolve(name, named=self.named).provider, query)

    def address(self, name: str) -> tuple[str, int] | None:
        """Host and port of the model's server; None if it has none."""
        return self.providers.address(name.partition("/")[0])

    def key_origin(self, name: str) -> str:
        """The variable or setting that supplies the provider's key; empty if no key is used."""
        return self.providers.key_origin(name.partition("/")[0])

    async def window(self, name: str) -> int | None:
        """The window that the server itself reports; None if unknown."""
        server = await self._server(name)
        return server.window if server else None

    async def _server(self, name: str) -> "LocalServer | None":
        """What the person's own server reports about itself; None for other providers."""
        ask = getattr(self.open(name), "server", None)
        return await ask(self.catalog.resolve(name, named=self.named).name) if ask is not None else None

    async def aclose(self) -> None:
        await self.providers.aclose()
