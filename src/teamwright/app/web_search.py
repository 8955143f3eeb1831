"""How agents search the web: with the engine or the provider that the person's settings name, or not at all."""

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from teamwright.app.models import model_for
from teamwright.app.workspace import Workspace
from teamwright.core.data.message import Request, user
from teamwright.core.data.search import WebFound, WebQuery, kept
from teamwright.core.errors import ModelError, ToolError
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.ports import Tool
from teamwright.models.catalog import packaged
from teamwright.models.routed import RoutedModel
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.meter import Ledger, MeteredModel
from teamwright.store.settings.schema import WebSearch
from teamwright.tools.web_search import WebSearchTool

if TYPE_CHECKING:
    from teamwright.host.web.search import Engine

MOST_SECONDS = 60.0  # for a provider, which searches and reads
Ask = Callable[[AgentId, WebQuery, str], "tuple[MeteredModel, Callable[[], WebFound]]"]


class WebSearching:
    """`tools` is empty where nothing is set up; `problems` says what is wrong with what is."""

    def __init__(self, ground: Workspace) -> None:
        self.tools: dict[str, Tool] = {}
        self.problems: tuple[str, ...] = ()
        self._env = ground.env
        self._ask: Ask | None = None
        wanted = ground.settings.own.web_search
        if wanted is None:
            return
        self._most = wanted.results
        try:
            self._engine = _engine(wanted, ground)
            self._model = "" if self._engine else _model(wanted, ground)
        except (ModelError, ValueError) as error:
            self.problems = (f"teamwright.webSearch: {error} WebSearch is not offered.",)
            return
        tool = WebSearchTool(self._search)
        self.tools = {tool.spec.name: tool}

    def introduce(
        self, models: RoutedModel, ledger: Ledger, session: SessionId, find: Callable[[AgentId], Agent | None]
    ) -> None:
        """Whose models are asked, and who pays: the agent that searches."""

        def ask(agent: AgentId, query: WebQuery, model: str) -> tuple[MeteredModel, Callable[[], WebFound]]:
            asking = find(agent)
            assert asking is not None
            searcher = models.searcher(model, query)
            metered = MeteredModel(
                searcher, ledger=ledger, meter=asking.meter, session=session, agent=agent, turns=False
            )
            return metered, lambda: searcher.found

        self._ask = ask

    async def _search(self, agent: AgentId, query: WebQuery) -> WebFound:
        if self._engine is not None:
            from teamwright.host.web.search import search_engine  # noqa: PLC0415

            return await search_engine(self._engine, query, self._most, self._env)
        assert self._ask is not None
        model, found = self._ask(agent, query, self._model)
        try:
            with anyio.fail_after(MOST_SECONDS):
                await model.reply(Request(self._model, (), (), (user(query.text),)), lambda _: None)
        except TimeoutError:
            raise ToolError(f"The web search failed: no answer within {MOST_SECONDS:g} seconds.") from None
        except ModelError as error:
            raise ToolError(f"The web search failed: {error}") from None
        return WebFound(kept(found().hits, query, self._most), found().answer)


def _engine(wanted: WebSearch, ground: Workspace) -> "Engine | None":
    """None: a provider of models searches. Raises ValueError with a sentence."""
    if wanted.provider not in ("searxng", "brave"):
        if wanted.url or wanted.key_env:
            raise ValueError(f"`url` and `keyEnv` are for engines; {wanted.provider} is reached as its models are.")
        return None
    from teamwright.host.web.search import BRAVE, Engine  # noqa: PLC0415

    kind = "brave" if wanted.provider == "brave" else "searxng"
    url = wanted.url or (BRAVE if kind == "brave" else "")
    if not _is_address(url):
        raise ValueError(f"`url` must be the http or https address of your {kind}.")
    name = wanted.key_name
    key = ground.env.get(name, "").strip() if name else ""
    if name and not (key and key.isascii() and key.isprintable()):
        raise ValueError(f"there is no key in the variable {name}.")
    return Engine(kind, url, key)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _model(wanted: WebSearch, ground: Workspace) -> str:
    """The full name of the model that searches. Raises ModelError where its provider cannot be reached at all."""
    models, name = model_for(ground, wanted.model or packaged().searching[wanted.provider])
    provider = name.partition("/")[0]
    named = ground.settings.own.providers.get(provider)
    if (named.wire if named else provider) != wanted.provider:
        raise ValueError(f"`model` is {name}, which is not asked in the way of {wanted.provider}.")
    models.check(name)
    return name
